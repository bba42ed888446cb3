/* Labelling: one reply at a time, without what the judge said of it, which is told afterwards. */

function startLabels() {
  const { items = [], run = '', check = '' } = pageData, box = byId('label');
  const done = new Set(pageData.done), skipped = new Set();
  /** @type {LabelItem | null} */
  let item = null;
  let words = '', isBusy = false;
  const last = h('div.lastlabel', { role: 'status' });
  const next = () => items.find(each => !done.has(each.id) && !skipped.has(each.id)) ?? null;

  /** @param {LabelReply | null} [given] */
  async function showNext(given) {
    item = next();
    words = '';
    if (!box) return;
    if (!item) return void fill(box, progress(), last, h('p.say', skipped.size ? 'The rest was skipped: load the page again to label it.' : 'All of them are labelled: the page of the judge says how to test it.'));
    const reply = given ?? await attempt(() => fetchData('/data/label/reply', { run, check, id: item?.id }));
    if (!reply) return;
    const note = h('span.about');
    fill(box, progress(), last, h('article.panel', reply.title !== reply.prompt && h('h2', { dir: 'auto' }, plain(reply.title)), h('div.msg.asked', h('div.who', 'Question'), h('div', askedView(reply.prompt))), h('div.msg.said', h('div.who', 'Reply'), h('div', replyTextView(reply.reply)))),
      pageData.acts ? h('div.acts.labelacts', buttonView(['Pass ', h('kbd', 'p')], () => label('pass')), buttonView(['Fail ', h('kbd', 'f')], () => label('fail')), buttonView(['Skip ', h('kbd', 's')], skip), buttonView(['Note ', h('kbd', 'n')], () => write(note)), note)
        : h('p.note', 'This server only shows runs: labels cannot be given here.'));
    scrollTo(0, 0);
  }
  const progress = () => h('p.progress', { role: 'status' }, `${group3(done.size)} of ${group3(items.length)} labelled`, h('progress', { max: Math.max(1, items.length), value: done.size, 'aria-label': 'Labelled' }));

  /** @param {'pass' | 'fail'} verdict */
  async function label(verdict) {
    const current = item;
    if (!current || isBusy || !pageData.acts) return;
    isBusy = true;
    const { suite, case: name, target, variant, trial, turn, check: places, id } = current;
    const sent = await attempt(() => sendAct('POST', '/labels', { run, suite, case: name, target, variant, trial, turn, check: places, label: verdict, note: words }));
    if (sent) {
      done.add(id);
      /** @type {LabelVerdict | null} */
      const said = await attempt(() => fetchData('/data/label/verdict', { run, check, id }));
      if (said) tellVerdict(verdict, said);
      await showNext();
    }
    isBusy = false;
  }
  /** @param {'pass' | 'fail'} verdict @param {LabelVerdict} said */
  function tellVerdict(verdict, { state: end, score: points, reason }) {
    const agrees = (verdict === 'pass') === (end === 'passed');
    fill(last, markView(agrees ? 'passed' : 'failed'), ` You said ${verdict}, and the judge ${agrees ? 'agrees' : 'does not'}: ${end}${points && ` with ${points}`}. `, h('span.about', { dir: 'auto' }, shortView(reason, 300)));
  }
  function skip() {
    if (item) skipped.add(item.id);
    showNext();
  }
  /** @param {HTMLElement} told */
  function write(told) {
    const field = h('textarea', { rows: 4, 'aria-label': 'Note' });
    field.defaultValue = words;
    askFirst('Note on this reply', field, 'Keep', async () => {
      words = field.value.trim();
      told.textContent = words ? `Note: ${words}` : '';
      return true;
    });
  }
  useKeys([
    { key: 'p', says: 'pass', press: () => label('pass') },
    { key: 'f', says: 'fail', press: () => label('fail') },
    { key: 's', says: 'skip', press: skip },
    modeKey,
    { key: 'n', says: 'write a note', press: () => /** @type {HTMLElement | null} */ (box?.querySelector('.labelacts button:nth-of-type(4)'))?.click() },
  ]);
  return showNext(pageData.first);
}
