/* A run that goes on: rows as they come, how many are done, and its end. */

/** Milliseconds between two looks at the list. */
const BREATH = 400;

/** Milliseconds until a server that refused is asked again; one that is gone is asked again by the browser. */
const REFUSED = 5000;

/** @param {string} run @param {{running: boolean, rows: number, whole: boolean}} live */
function follow(run, live) {
  const stream = new EventSource(`/data/runs/${run}/live?after=${live.running ? live.rows : 0}`);
  let timer = 0;
  showWhole(live.whole);
  listen(stream, 'news', event => {
    /** @type {News} */
    const news = JSON.parse(event.data);
    if (news.mark !== pageData.mark) {
      stream.close();
      clearTimeout(timer);
      return again(news.state);
    }
    showNews(news);
    if (news.rows.length && !timer) {
      timer = setTimeout(() => {
        timer = 0;
        dataSource.changed?.(100);
      }, BREATH);
    }
  });
  listen(stream, 'over', () => {
    stream.close();
    clearTimeout(timer);
    if (pageData.stops) return again('out of the queue');
    dataSource.changed?.(100);
    tellPending(pageData.state === 'ended' && ['The run is verified, and all of its conversations are read. ', !live.whole && reloadButton('Show its cases')]);
  });
  listen(stream, 'error', () => {
    toast('The server does not answer.');
    if (stream.readyState === EventSource.CLOSED) setTimeout(() => follow(run, live), REFUSED);
  });
  listen(stream, 'gone', () => stream.close());
}

/** @param {News} news */
function showNews({ total, planned, counts, whole, state, in_flight: flights, waiting }) {
  const done = byId('done'), bar = /** @type {HTMLProgressElement | null} */ (byId('progress'));
  if (done) done.textContent = group3(total);
  if (bar) {
    bar.max = Math.max(1, planned);
    bar.value = total;
  }
  showWhole(whole);
  showFlights(flights, waiting);
  if (counts && state !== 'ended') nameWindow(counts, total, planned);
}

/** `3 failed, 10 of 21: service-desk`, as the server names the window. @param {Record<string, number>} counts @param {number} total @param {number} planned */
function nameWindow({ failed = 0, error = 0 }, total, planned) {
  const told = [failed && `${group3(failed)} failed`, error && `${group3(error)} error${error > 1 ? 's' : ''}`, planned ? `${group3(total)} of ${group3(planned)}` : `${group3(total)} done`];
  pageTitle = `${told.filter(words => words).join(', ')}: ${dataSource.head().title}`;
  if (placeNow.page === 'run') document.title = pageTitle;
}

/** While conversations of a run that has ended are still being read, counts of pills are those of a part. @param {boolean} whole */
const showWhole = whole => pillsBox.classList.toggle('part', !whole && pageData.state === 'ended');

/** Counts the ages of what is in flight until the next news. */
let ticking = 0;

/** @param {Flight[]} flights @param {number} waiting */
function showFlights(flights, waiting) {
  const box = byId('flight'), seen = performance.now();
  if (!box) return;
  const draw = () => {
    fill(box, flights.map(({ case: name, target, trial, turn, age_s: age }) => h('li', h('b.pulse.running', { 'aria-hidden': 'true' }), h('b', foreign(name)), h('span', foreign(target), trial > 1 && `, trial ${trial}`), h('span', `turn ${turn}`), h('span.num', clockWords(age + (performance.now() - seen) / 1000)))),
      waiting > flights.length && h('li', h('span', `and ${group3(waiting - flights.length)} more`)));
  };
  clearInterval(ticking);
  box.hidden = !flights.length;
  draw();
  if (flights.length) ticking = setInterval(draw, 1000);
}

/** `1:12`, `1:04:09`: a time that runs. @param {number} seconds */
function clockWords(seconds) {
  const parts = [seconds / 3600, seconds / 60 % 60, seconds % 60].map(part => Math.floor(part)), [first, ...rest] = parts[0] ? parts : parts.slice(1);
  return [first, ...rest.map(part => String(part).padStart(2, '0'))].join(':');
}

/** Says what is still being done, or that it is done. @param {Child[]} words */
function tellPending(...words) {
  const box = byId('pending');
  if (!box) return;
  fill(box, ...words);
  box.hidden = !box.textContent;
}

/** @param {string} words */
const reloadButton = words => buttonView(words, () => location.reload());

/** Loads the page again, unless a conversation is being read or something is being written. @param {string} state */
function again(state) {
  const isBusy = placeNow.page !== 'run' || document.querySelector('dialog[open]') || [...document.querySelectorAll('textarea')].some(field => field.value !== field.defaultValue);
  if (isBusy) tellPending(`The run is ${state}. `, reloadButton('Show it'));
  else location.reload();
}
