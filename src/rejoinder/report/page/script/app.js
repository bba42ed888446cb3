/* The application: what the address says is what is shown. */

let pageTitle = document.title;
let showing = 0;

/** Opens a place, as a new entry in the history. @param {Place} place */
function go(place) {
  const next = { ...place, query: place.query ?? placeNow.query };
  if (addresses.href(next) === addresses.href(placeNow)) return toTurn();
  if (isThisPage(next)) {
    placeNow = next;
    history.replaceState(history.state, '', addresses.href(placeNow));
    return toTurn();
  }
  if (placeNow.page === 'run') history.replaceState({ scroll: scrollY }, '');
  history.pushState(null, '', addresses.href(next));
  placeNow = next;
  return showPlace();
}

const closeDetail = () => go(RUN);

/** Is it the same conversation, at another turn at most? @param {Place} place */
const isThisPage = place => place.page !== 'run' && addresses.href({ ...place, turn: placeNow.turn }) === addresses.href(placeNow);

/** Scrolls to the turn that the address names. */
function toTurn() {
  const part = placeNow.turn ? byId(`t${placeNow.turn}`) : null;
  part?.scrollIntoView({ block: 'start' });
  focusOn(part);
}

/** Shows what the address says. @param {number} [scroll] where the run's page stood before */
async function showPlace(scroll) {
  const run = ++showing, isRun = placeNow.page === 'run', app = byId('app'), wasOpen = app?.classList.contains('split');
  app?.classList.toggle('split', !isRun);
  app?.classList.toggle('wide', placeNow.page === 'compare');
  detailBox.hidden = isRun;
  showView();
  if (isRun) {
    fill(detailBox);
    document.title = pageTitle;
    nameHere('');
    draw(true);
    if (wasOpen) (listPane.hidden ? backToGrid : backToList)(scroll);
    return;
  }
  const at = placeNow.address ? await dataSource.place(placeNow.address, queryNow()) : -1;
  if (run !== showing) return;
  if (at >= 0) listNow.at = at;
  reveal();
  draw(true);
  const view = await detail();
  if (run !== showing) return;
  fill(detailBox, view);
  showMarks();
  const title = detailBox.querySelector('h1')?.textContent ?? '';
  document.title = `${title}: ${pageTitle}`;
  nameHere(title);
  detailBox.scrollTop = 0;
  if (innerWidth <= NARROW) scrollTo(0, 0);
  if (document.documentElement.dataset.ready && hasFocus(document.body)) focusOn(rowsBox.offsetParent ? rowsBox : detailBox);
  toTurn();
}

/** The last of the crumbs. @param {string} title */
function nameHere(title) {
  const here = byId('here');
  if (here) fill(here, title && h('span', { 'aria-current': 'page' }, title));
}

/** Scrolls to the list, or to what is shown instead, below the head of the page. */
const toList = () => scrollBy(0, areaOf(document.querySelector('.views') ?? listPane).top - 48);

/** @param {number} [scroll] */
function backToList(scroll) {
  scrollTo(0, scroll ?? Math.max(0, areaOf(rowsBox).top + scrollY + listNow.at * ROW - innerHeight / 2));
  draw(true);
  focusOn(rowsBox);
}

/** The conversation, or both of a pair. @returns {Promise<HTMLElement>} */
async function detail() {
  const { address, other } = placeNow, { pair } = dataSource.head();
  if (!address) return h('div');
  /** @type {[Address, Address] | null} */
  const sides = other ? [address, other] : pair && !address.side ? [{ ...address, side: 'a' }, { ...address, side: 'b' }] : null;
  const [siblings, one, two] = await Promise.all([dataSource.siblings(address), dataSource.conversation(sides?.[0] ?? address), sides && dataSource.conversation(sides[1])]);
  const found = one ?? two;
  if (!found) return missingView(address, siblings);
  if (!one || !two || !sides) return conversationView(found, pair ? [] : siblings);
  byId('app')?.classList.add('wide');
  const names = other ? sidesNames(one.row, two.row) : ['A', 'B'];
  /** @param {Address} side @returns {Place} */
  const place = side => ({ ...RUN, page: 'conversation', address: side, query: placeNow.query });
  return pairView(one, two, [names[0], names[1]], [place(sides[0]), place(sides[1])]);
}

/** What tells two conversations of a case apart. @param {Row} one @param {Row} other */
function sidesNames(one, other) {
  const parts = [partsOf(addressOf(one)), partsOf(addressOf(other))];
  return parts.map((names, n) => names.map((name, place) => name === parts[1 - n]?.[place] ? '' : place === 2 ? `trial ${name}` : name).filter(name => name).join(', '));
}

/** A link to one of our addresses is followed here. @param {MouseEvent} event */
function clicked(event) {
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
  if (hrefOf(link) === '#work') {
    event.preventDefault();
    rowsBox.focus();
    return;
  }
  const place = addresses.of(link), view = link.getAttribute('data-view');
  if (!place) return;
  event.preventDefault();
  const filter = place.query;
  if (view != null) choose({ view });
  else if (place.page === 'run' && filter) {
    go({ ...place, query: placeNow.query });
    choose(filter).then(() => {
      toList();
      focusOn(rowsBox);
    });
  } else go(place);
}

/** Back and forward, and an address that was typed. @param {PopStateEvent} event */
function moved(event) {
  placeNow = addresses.read();
  showQuery();
  refresh().then(() => showPlace(event.state?.scroll));
}

/** @param {Source} from @param {Addresses} where */
async function startApp(from, where) {
  dataSource = from;
  addresses = where;
  placeNow = addresses.read();
  history.scrollRestoration = 'manual';
  const work = byId('work');
  work?.replaceChildren(listPane, detailBox);
  if (work) work.hidden = false;
  makeList();
  startGrid();
  showQuery();
  startKeys();
  listen(document, 'click', clicked);
  listen(window, 'popstate', moved);
  listen(window, 'beforeprint', unfold);
  await refresh();
  await showPlace();
  const { scroll } = history.state ?? {};
  if (scroll) scrollTo(0, scroll);
  else if (placeNow.page === 'run' && ['show', 'target', 'variant', 'tag'].some(name => queryNow()[/** @type {keyof Query} */ (name)])) toList();
  performance.mark('ready');
  document.documentElement.dataset.ready = '1';
}

showTheme();
