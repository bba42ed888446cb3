/* Keys, and the dialog that lists them. None of them works while a field has the focus, or together with Ctrl, Alt or Cmd. */

/** @typedef {{key: string, says?: string, press: (key: string) => unknown}} Key several keys are parted by spaces; false means that the key has no meaning now */

const helpBox = h('dialog.help', { 'aria-labelledby': 'h-help' });

/** Has the list the focus, or nothing? */
const isListActive = () => !listPane.hidden && (hasFocus(rowsBox) || hasFocus(document.body));

/** @type {Key} */
const modeKey = { key: 'm', says: 'read replies, or see them raw', press: () => setRaw(!isRaw) };

/** @type {Key[]} */
const keyList = [
  { key: 'j', says: 'next conversation', press: () => move(1) },
  { key: 'k', says: 'previous conversation', press: () => move(-1) },
  { key: 'ArrowDown ArrowUp', press: key => hasFocus(rowsBox) ? move(key === 'ArrowUp' ? -1 : 1) : walkGrid(key) },
  { key: 'ArrowLeft ArrowRight', press: walkGrid },
  { key: 'Home End', press: key => hasFocus(rowsBox) && move(key === 'Home' ? -listNow.total : listNow.total) },
  { key: 'Enter', says: 'open it', press: () => isListActive() && listNow.at >= 0 && openRow() },
  { key: 'Escape', says: 'back to the run', press: () => placeNow.page !== 'run' && closeDetail() },
  { key: '/', says: 'search', press: focusSearch },
  { key: 'f', says: 'failures only, and back', press: () => {
    const bad = dataSource.head().pair ? 'worse' : 'failed';
    choose({ show: queryNow().show === bad ? '' : bad });
  } },
  { key: '1 2 3 4 5 6', says: 'the pills, from left to right', press: key => choose({ show: pills()[Number(key) - 1]?.[0] ?? queryNow().show }) },
  { key: 'e', says: 'unfold everything', press: unfoldAll },
  modeKey,
  { key: 'g', says: 'grid of cases, and back', press: toggleGrid },
  { key: 'x', says: 'compare two cells of the grid', press: chooseCell },
  { key: 'c', says: 'copy the link', press: () => copy(location.href, 'Link') },
  { key: 't', says: 'light, dark, as the system', press: nextTheme },
  { key: '?', says: 'this list', press: help },
];

function focusSearch() {
  if (innerWidth <= NARROW && placeNow.page !== 'run') closeDetail();
  if (listPane.hidden) choose({});
  searchBox.focus();
  searchBox.select();
}

/** Long texts; on paper no more than these. */
function unfold() {
  for (const more of detailBox.querySelectorAll('.more[aria-expanded=false]')) /** @type {HTMLElement} */ (more).click();
}

function unfoldAll() {
  for (const closed of detailBox.querySelectorAll('details:not([open], .act)')) {
    closed.setAttribute('open', '');
    closed.dispatchEvent(new Event('toggle'));
  }
  unfold();
}

function help() {
  fill(helpBox, h('h2', { id: 'h-help' }, 'Keys'), h('dl', keyList.filter(({ says }) => says).map(({ key, says }) => [h('dt', key.split(' ').map(each => h('kbd', each.replace('Escape', 'Esc')))), h('dd', says)])), buttonView('Close', () => helpBox.close()));
  helpBox.showModal();
}

/** What every page has: the keys, the dialog that lists them, the theme. */
function startKeys() {
  document.body.append(helpBox, toastBox);
  listen(window, 'keydown', pressed);
  listen(byId('theme'), 'click', nextTheme);
  listen(byId('keys'), 'click', help);
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  const { key } = event, field = event.target instanceof HTMLElement ? event.target : document.body;
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || document.querySelector('dialog[open]')) return;
  if (field.matches('input:not([type=checkbox]),textarea,select')) {
    if (key === 'Escape') focusOn(rowsBox);
    if (key === 'Enter' && field === searchBox && listNow.total) {
      listNow.at = Math.max(0, listNow.at);
      focusOn(rowsBox);
      openRow();
    }
    return;
  }
  const found = keyList.find(each => each.key.split(' ').includes(key));
  if (found && found.press(key) !== false) event.preventDefault();
}
