/* The page of a judge: a test against human labels, its progress, and these labels. */

function startJudge() {
  const { run = '', check = '', labels = 0, acts, live, is_tested: isTested, given = [] } = pageData, box = byId('acts');
  const rows = acts ? [...document.querySelectorAll('[data-label]')].map((row, n) => labelRow(row, given[n])) : [];
  let at = -1;
  /** @param {number} by */
  const step = by => {
    at = Math.max(0, Math.min(rows.length - 1, at + by));
    const row = rows[at];
    if (row) (row.element.focus(), row.element.scrollIntoView({ block: 'nearest' }));
  };
  /** @param {'pass' | 'fail'} label */
  const say = label => rows[at]?.give(label) ?? false;
  useKeys(rows.length ? [
    { key: 'j', says: 'next label', press: () => step(1) },
    { key: 'k', says: 'previous label', press: () => step(-1) },
    { key: 'p', says: 'label it pass', press: () => say('pass') },
    { key: 'f', says: 'label it fail', press: () => say('fail') },
  ] : []);
  if (live) return void setInterval(() => document.querySelector('dialog[open]') || location.reload(), 2000);
  if (!acts || !run || !labels || !box) return;
  const replies = `${group3(labels)} ${labels === 1 ? 'label' : 'labels'}`;
  box.prepend(buttonView(`${isTested ? 'Test it again' : 'Test it'} with ${labels === 1 ? 'this' : 'these'} ${replies}`, () => askFirst('Test the judge?',
    h('p', `It is asked about the ${group3(labels)} ${labels === 1 ? 'reply' : 'replies'} with human labels. It costs what the judge costs.`), 'Test', async () => {
      await sendAct('POST', `/runs/${run}/judges/${check}/test`, {});
      location.reload();
    }), { class: isTested ? 'btn' : 'btn main' }));
}

/** A label of the list, which can be given anew. @param {Element} row @param {GivenLabel} given */
function labelRow(row, { run, item, label: first, note }) {
  const element = /** @type {HTMLElement} */ (row), { suite, case: name, target, variant, trial, turn, check: places } = item;
  /** @type {('pass' | 'fail')[]} */
  const both = ['pass', 'fail'];
  const buttons = both.map(label => buttonView(label === 'pass' ? 'Pass' : 'Fail', () => give(label), { class: 'btn quiet small' }));
  /** @param {string} given */
  const tell = given => both.forEach((label, n) => buttons[n].setAttribute('aria-pressed', String(label === given)));
  /** @param {'pass' | 'fail'} label */
  const give = label => attempt(async () => {
    await sendAct('POST', '/labels', { run, suite, case: name, target, variant, trial, turn, check: places, label, note });
    tell(label);
    toast(`Labelled: ${label}`);
  });
  tell(first);
  element.append(h('span.give', { role: 'group', 'aria-label': 'Your label' }, 'Your label: ', buttons));
  return { element, give };
}
