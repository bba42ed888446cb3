/* Panels that take turns with the list, and one of them: the grid of cases. Python makes them. */

/** The cell that was chosen to be seen beside another one. @type {Element | null} */
let chosenCell = null;

/** Cells that lead somewhere. @returns {HTMLElement[]} */
const cells = () => [...document.querySelectorAll(/** @type {'a'} */ ('#grid td a'))];

/** The one that Tab leads to. */
const cellNow = () => cells().find(cell => cell.tabIndex === 0);

/** Shows the panel that the address names, or the list. */
function showView() {
  const { view } = queryNow();
  let shown = '';
  for (const panel of document.querySelectorAll('section.view')) if (!panel.toggleAttribute('hidden', panel.id !== view)) shown = view;
  listPane.hidden = !!shown && placeNow.page === 'run';
  for (const tab of document.querySelectorAll('.tab')) tab.setAttribute('aria-current', String(tab.getAttribute('data-view') === shown));
}

function toggleGrid() {
  if (placeNow.page !== 'run') return;
  choose({ view: queryNow().view === 'grid' ? '' : 'grid' });
  focusOn(cellNow());
}

/** To the cell from which a conversation was opened. */
function backToGrid() {
  focusOn(cellNow());
  cellNow()?.scrollIntoView({ block: 'center' });
}

function startGrid() {
  const table = document.querySelector('#grid table'), heads = table?.querySelectorAll(/** @type {'th'} */ ('thead th')) ?? [];
  cells().forEach((cell, n) => cell.tabIndex = n && -1);
  listen(table, 'focusin', ({ target }) => cells().includes(target) && cells().forEach(cell => cell.tabIndex = cell === target ? 0 : -1));
  for (const head of heads) fill(head, h('button.sort', { type: 'button', onclick: () => sortGrid(head) }, [...head.childNodes]));
  table?.querySelector('thead th:last-child')?.setAttribute('aria-sort', 'descending');
}

/** The first press puts first what lost most, the next one turns it round. @param {HTMLTableCellElement} head */
function sortGrid(head) {
  const body = head.closest('table')?.tBodies[0], isUp = head.ariaSort ? head.ariaSort === 'descending' : !head.cellIndex;
  for (const other of head.parentElement?.children ?? []) other.removeAttribute('aria-sort');
  head.ariaSort = isUp ? 'ascending' : 'descending';
  /** @param {HTMLTableRowElement} row */
  const by = row => Number(row.cells[head.cellIndex].dataset.by);
  body?.append(...[...body.rows].sort((one, other) => (isUp ? 1 : -1) * (by(one) - by(other))));
}

/** To the next cell of the row or the column. @param {string} key */
function walkGrid(key) {
  const all = cells(), at = all.findIndex(hasFocus), column = all[at]?.closest('td')?.cellIndex;
  const ahead = /Down|Right/.test(key) ? all.slice(at + 1) : all.slice(0, at).reverse();
  if (at >= 0) ahead.find(cell => /Left|Right/.test(key) || cell.closest('td')?.cellIndex === column)?.focus();
  return at >= 0;
}

/** Chooses a cell; the second one opens both side by side. */
function chooseCell() {
  const cell = cells().find(hasFocus), before = chosenCell;
  const [one, two] = [before, cell].map(link => link && addresses.of(link)?.address);
  before?.classList.remove('chosen');
  chosenCell = cell === before ? null : cell ?? null;
  if (chosenCell && one && two && before?.closest('tr') === cell?.closest('tr')) {
    chosenCell = null;
    go({ ...RUN, page: 'compare', address: one, other: two });
  }
  chosenCell?.classList.add('chosen');
  if (chosenCell) toast('Press x on another cell of this case');
  return !!cell;
}
