/* The list of conversations: pills, search, choices, and as many rows in the page as fit the window. */

/** The height of a row in pixels, as in the styles. */
const ROW = 52;
/** Rows beyond the window, above and below. */
const SPARE = 6;
/** Rows in the page, at most. */
const MOST = 60;
const MOST_PRINTED = 500;
const MOST_KEPT = 2000;
/** Up to this width there is one pane. */
const NARROW = 860;

/** @type {Source} */
let dataSource;
/** @type {Addresses} */
let addresses;
/** @type {Place} */
let placeNow = RUN;

/** Functions that add elements of their own. The viewer has more of them than the report. */
const actions = {
  /** @type {((conversation: Conversation) => Child)[]} */
  conversation: [],
  /** @type {((turn: Turn, conversation: Conversation) => Child)[]} */
  turn: [],
  /** @type {((check: Check, places: number[], turn: Turn | null, conversation: Conversation) => Child)[]} */
  check: [],
  /** @type {(() => Child)[]} */
  list: [],
};

/** @type {[string, string][]} */
const PILLS = [['', 'All'], ['failed', 'Failed'], ['recovered', 'Recovered'], ['error', 'Errors'], ['first', 'First try'], ['again', 'Same words, any outcome'], ['different', 'Verdicts differ'], ['skipped', 'Skipped']];
/** @type {[string, string][]} */
const PAIR_PILLS = [['', 'All'], ['worse', 'Flipped to failed'], ['better', 'Flipped to passed'], ['words', 'Other words'], ['same', 'Same'], ['only', 'In one run only']];

const pillsBox = h('div.pills', { role: 'group', 'aria-label': 'Show' });
const searchBox = h('input', { id: 'q', type: 'search', placeholder: 'Search', 'aria-label': 'Search transcripts', autocomplete: 'off', spellcheck: 'false', oninput: () => choose({ q: searchBox.value }) });
const countBox = h('p.count', { role: 'status' });
const rowsBox = h('div.rows', { id: 'rows', role: 'listbox', tabindex: '0', 'aria-label': 'Conversations' });
const emptyBox = h('p.empty', { hidden: true });
const choices = h('div.searchrow');
/** What the list is filtered by beside its fields, and a way out of it. */
const onlyBox = h('p.only', { hidden: true });
const toolsBox = h('div.tools', pillsBox, choices, onlyBox, countBox);
const listPane = h('div.listpane', { id: 'list', tabindex: '-1' }, toolsBox, rowsBox, emptyBox);

const listNow = {
  total: 0, at: -1, run: 0, drawn: '', percent: 100,
  /** @type {Map<number, Row>} */
  rows: new Map(),
  /** @type {Record<string, number>} */
  counts: {},
  asked: new Set(),
};

const queryNow = () => placeNow.query ?? NO_QUERY;

/** @param {Row} row @returns {Place} */
const placeOfRow = row => ({ ...RUN, page: 'conversation', address: addressOf(row) });

/** Changes the filter or the view. The history gets no new entry. @param {Partial<Query>} change */
function choose(change) {
  placeNow = { ...placeNow, query: { ...queryNow(), view: '', ...change } };
  history.replaceState(history.state, '', addresses.href(placeNow));
  if (!('q' in change)) showQuery();
  showView();
  return refresh();
}

/** Shows the filter in its fields. */
function showQuery() {
  searchBox.value = queryNow().q;
  for (const field of choices.querySelectorAll('select')) field.value = queryNow()[/** @type {keyof Query} */ (field.name)];
}

/** @param {'target' | 'variant' | 'tag'} name @param {string} all @param {string[]} values */
const chooser = (name, all, values) => h('select', { name, 'aria-label': all, onchange: (/** @type {Event} */ event) => choose({ [name]: /** @type {HTMLSelectElement} */ (event.target).value }) },
  h('option', { value: '' }, all), values.map(value => h('option', { value }, inertText(value))));

function drawOnly() {
  const { why } = queryNow(), words = why.slice(why.indexOf(':') + 1);
  onlyBox.hidden = !why;
  fill(onlyBox, why && ['Only ', h('b', words ? plain(words) : 'same words again', why.startsWith('check:') && ' failed'), ' ', buttonView('Show all', () => choose({ why: '' }))]);
}

function makeList() {
  const { targets, variants, tags = [] } = dataSource.head();
  fill(choices, h('label.search', searchBox, h('kbd', { 'aria-hidden': 'true' }, '/')),
    targets.length > 1 && chooser('target', 'All targets', targets), variants.length > 0 && chooser('variant', 'All variants', variants),
    tags.length > 0 && chooser('tag', 'All tags', tags), actions.list.map(make => make()));
  dataSource.changed = percent => {
    listNow.percent = percent;
    refresh();
  };
  let isDue = false;
  const later = () => {
    if (!isDue) requestAnimationFrame(() => (isDue = false, draw()));
    isDue = true;
  };
  for (const scroller of [window, listPane]) scroller.addEventListener('scroll', later, { passive: true });
  listen(window, 'resize', () => draw(true));
  listen(window, 'beforeprint', printRows);
  listen(window, 'afterprint', () => {
    rowsBox.classList.remove('printed');
    draw(true);
  });
}

/** Asks the source again and keeps the place. */
async function refresh() {
  const run = ++listNow.run, wanted = queryNow(), row = listNow.rows.get(listNow.at);
  const current = placeNow.address ?? (row ? addressOf(row) : null);
  const [from] = rowsInView();
  const answer = await dataSource.find(wanted, from, MOST);
  const at = current ? await dataSource.place(current, wanted) : -1;
  if (run !== listNow.run) return;
  Object.assign(listNow, { total: answer.total, counts: answer.counts, at: at < 0 && !placeNow.address && answer.total ? 0 : at });
  listNow.rows = new Map(answer.rows.map((each, n) => [from + n, each]));
  listNow.asked.clear();
  drawPills();
  drawOnly();
  draw(true);
}

/** The pills that are in the page now. */
const pills = () => (dataSource.head().pair ? PAIR_PILLS : PILLS).filter(([name]) => !/skipped|again|different|only/.test(name) || listNow.counts[name] || queryNow().show === name);

function drawPills() {
  fill(pillsBox, pills().map(([name, words]) => {
    const count = listNow.counts[name || 'all'] ?? 0, isOn = queryNow().show === name;
    return h('button.pill', { type: 'button', 'aria-pressed': String(isOn), disabled: !count && !isOn, onclick: () => choose({ show: name }) },
      name in MARK && markView(name), words, ' ', h('b', group3(count)));
  }));
  const { total, percent } = listNow, { pair, total: every = total } = dataSource.head(), all = pair ? 'pairs' : 'conversations';
  const words = total === every ? `${group3(total)} ${total === 1 ? all.slice(0, -1) : all}, ${pair ? 'changes' : 'failures'} first` : `${group3(total)} of ${group3(every)} ${all}`;
  countBox.textContent = percent < 100 ? `${words}; transcripts ${percent} %` : words;
}

/** Does the list scroll by itself? Beside a conversation it does. */
const isPane = () => byId('app')?.classList.contains('split') && innerWidth > NARROW;

/** The first row of the window and the one behind the last. @returns {[number, number]} */
function rowsInView() {
  const pane = isPane() ? areaOf(listPane) : { top: 0, height: innerHeight };
  const top = pane.top - areaOf(rowsBox).top;
  const from = Math.max(0, Math.floor(top / ROW) - SPARE);
  return [from, Math.min(from + MOST, Math.max(from + 2 * SPARE, Math.ceil((top + pane.height) / ROW) + SPARE))];
}

/** @param {boolean} [anew] */
function draw(anew) {
  const { total } = listNow;
  if (rowsBox.classList.contains('printed')) return;
  rowsBox.hidden = !total;
  emptyBox.hidden = !!total;
  if (!total) {
    const { q } = queryNow(), isAll = !Object.values(queryNow()).some(value => value);
    fill(emptyBox, q ? ['Nothing contains “', foreign(q), '” here. '] : isAll ? 'No conversation has ended yet.' : 'Nothing here. ', !isAll && buttonView('Show all', () => choose(NO_QUERY)));
    return;
  }
  rowsBox.style.height = `${total * ROW}px`;
  if (!rowsBox.offsetParent) return;
  const [from, last] = rowsInView(), to = Math.min(last, total), key = `${from} ${to}`;
  if (!anew && key === listNow.drawn) return;
  listNow.drawn = key;
  const places = Array.from({ length: Math.max(0, to - from) }, (_, n) => from + n);
  if (places.some(n => !listNow.rows.has(n))) ask(from);
  fill(rowsBox, places.map(n => rowView(n)));
  const { at } = listNow;
  if (at >= from && at < to) rowsBox.setAttribute('aria-activedescendant', `r${at}`);
  else rowsBox.removeAttribute('aria-activedescendant');
}

/** @param {number} from */
async function ask(from) {
  const { run } = listNow;
  if (listNow.asked.has(from)) return;
  listNow.asked.add(from);
  const { rows } = await dataSource.find(queryNow(), from, MOST);
  if (run !== listNow.run) return;
  if (listNow.rows.size > MOST_KEPT) (listNow.rows.clear(), listNow.asked.clear());
  rows.forEach((row, n) => listNow.rows.set(from + n, row));
  draw(true);
}

/** @param {number} n */
function rowView(n) {
  const row = listNow.rows.get(n);
  if (!row) return null;
  const isOpen = isSame(placeNow.address, addressOf(row)), isCurrent = n === listNow.at;
  const view = h('a', {
    class: `row${isCurrent ? ' cur' : ''}${isOpen ? ' open' : ''}`, id: `r${n}`, href: addresses.href({ ...placeOfRow(row), query: placeNow.query }), role: 'option', tabindex: '-1',
    'aria-selected': String(isCurrent), 'aria-setsize': listNow.total, 'aria-posinset': n + 1,
  }, markView(row.outcome, row.recovered_on), h('span.t', h('b', foreign(row.title || row.case)), foreigns(whose(row))),
  h('span.w', row.change ? changeWords(row) : [h('span.sr', `${row.word}. `), row.hit ? h('bdi', marked(row.hit, 0, soughtIn(row.hit, queryNow().q))) : saidWords(row), row.aside && ' (decides nothing)']),
  h('span.x', row.length, h('br'), row.time));
  view.style.top = `${n * ROW}px`;
  return view;
}

/** What it said, and why. @param {Row} row @returns {Child} */
function saidWords({ outcome, why, said, same }) {
  if (!why && !said) return outcome === 'skipped' ? 'Not run' : 'All checks passed';
  return [said && h('span.q', h('span.roomy', outcome === 'recovered' && 'First ', 'it said '), '“', foreign(said), '” '), why && h('span', said ? '· ' : outcome === 'recovered' && 'First failed ', plain(why)), same && h('span.roomy', ` · ${same}`)];
}

/** @param {Row} row @returns {Child} */
function changeWords(row) {
  const { change, before, differs, why, said } = row;
  const went = [before ? before.word : 'not in A', change === 'only' && before ? 'not in B' : row.word].join(' → ');
  if (said && /worse|better/.test(change ?? '')) return [h('span', change === 'worse' ? 'Broke' : 'Fixed', h('span.roomy', `: ${went}`), ' · '), saidWords(row)];
  return [went, differs ? `, replies differ from turn ${differs}` : '', why && ': ', plain(why)];
}

/** @param {number} by */
async function move(by) {
  if (listPane.hidden) return choose({});
  if (!listNow.total) return;
  listNow.at = Math.max(0, Math.min(listNow.total - 1, listNow.at + by));
  reveal();
  draw(true);
  if (placeNow.page !== 'run') await openRow();
}

/** Opens the row that is chosen. */
async function openRow() {
  const row = listNow.rows.get(listNow.at) ?? (await dataSource.find(queryNow(), Math.max(0, listNow.at), 1)).rows[0];
  if (row) go(placeOfRow(row));
}

/** Scrolls to the row that is chosen. */
function reveal() {
  const pane = isPane() ? listPane : null;
  if (placeNow.page !== 'run' && !pane) return;
  const y = areaOf(rowsBox).top + listNow.at * ROW, top = areaOf(toolsBox).bottom;
  const bottom = pane ? areaOf(pane).bottom : innerHeight;
  const by = y < top ? y - top : Math.max(0, y + ROW - bottom);
  if (by) (pane ?? window).scrollBy(0, by);
}

/** All rows up to a limit, for paper. */
async function printRows() {
  if (placeNow.page !== 'run') return;
  rowsBox.classList.add('printed');
  const { rows } = await dataSource.find(queryNow(), 0, MOST_PRINTED);
  rows.forEach((row, n) => listNow.rows.set(n, row));
  rowsBox.style.height = 'auto';
  fill(rowsBox, rows.map((_, n) => rowView(n)));
}
