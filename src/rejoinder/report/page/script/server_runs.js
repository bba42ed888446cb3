/* The list of runs: ticks, keys and the search. Everything else in it is an ordinary page. */

function startRuns() {
  const rows = [...document.querySelectorAll('tr[data-run]')];
  const box = byId('ticked'), field = /** @type {HTMLInputElement | null} */ (byId('runs-q'));
  let at = -1;
  const ticks = /** @type {HTMLInputElement[]} */ ([...document.querySelectorAll('input[name=tick]')]);
  const ticked = () => ticks.filter(tick => tick.checked).map(tick => tick.value).sort();
  const href = () => `/compare/${ticked().slice(-2).join('/')}`;

  function tell() {
    const chosen = ticked();
    if (!box) return;
    box.hidden = !chosen.length;
    fill(box, `Ticked: ${group3(chosen.length)}`, chosen.length === 2 ? linkButton('Compare', href()) : h('span.about', chosen.length < 2 ? 'tick one more to compare' : 'tick two to compare'));
  }
  /** @param {number} by */
  function step(by) {
    at = Math.max(0, Math.min(rows.length - 1, at + by));
    rows.forEach((row, n) => row.classList.toggle('cur', n === at));
    rows[at]?.scrollIntoView({ block: 'nearest' });
  }
  for (const tick of ticks) {
    tick.hidden = false;
    listen(tick, 'change', tell);
  }
  for (const button of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[data-copy]'))) {
    button.hidden = false;
    listen(button, 'click', () => copy(button.dataset.copy ?? '', 'Command'));
  }
  for (const choice of /** @type {NodeListOf<HTMLSelectElement>} */ (document.querySelectorAll('.choice'))) {
    listen(choice, 'change', () => location.assign(choice.value));
  }
  if (field) {
    field.hidden = false;
    listen(field, 'change', () => {
      const words = new URLSearchParams(location.search);
      words.delete('from');
      words.set('q', field.value.trim());
      if (!field.value.trim()) words.delete('q');
      location.assign(words.size ? `/?${words}` : '/');
    });
  }
  useKeys([
    { key: 'j', says: 'next run', press: () => step(1) },
    { key: 'k', says: 'previous run', press: () => step(-1) },
    { key: 'Enter', says: 'open it', press: () => !document.activeElement?.matches('a,button') && rows[at] ? rows[at].querySelector('a')?.click() : false },
    { key: 'x', says: 'tick it', press: () => rows[at] ? /** @type {HTMLElement | null} */ (rows[at].querySelector('input'))?.click() : false },
    { key: 'c', says: 'compare the two that are ticked', press: () => ticked().length === 2 ? location.assign(href()) : false },
    { key: '/', says: 'search', press: () => field?.focus() },
  ]);
  tell();
  if (pageData.live) {
    setInterval(() => {
      if (!ticked().length && !hasFocus(field) && !document.querySelector('dialog[open]')) location.reload();
    }, 5000);
  }
}

/** Keys of a page without a list. @param {Key[]} own */
function useKeys(own) {
  keyList.splice(0, keyList.length, ...own, ...keyList.slice(-2));
  startKeys();
}
