/* A run that goes on: rows as they come, how many are done, and its end. */

/** @typedef {{from: number, rows: Row[], next: number, total: number, planned: number, counts: Record<string, number> | null, state: string, verified: boolean, over: boolean}} News */

/** Milliseconds between two looks at the list. */
const BREATH = 400;

/** @param {string} run @param {{running: boolean, rows: number, planned: number}} live */
function follow(run, live) {
  const stream = new EventSource(`/data/runs/${run}/live?after=${live.running ? live.rows : 0}`);
  let timer = 0, wasVerified = true;
  listen(stream, 'news', event => {
    /** @type {News} */
    const news = JSON.parse(event.data);
    wasVerified = news.verified;
    if (live.running && !live.planned && news.planned) return again('going on');
    showNews(news);
    if (news.rows.length && !timer) {
      timer = setTimeout(() => {
        timer = 0;
        dataSource.changed?.(100);
      }, BREATH);
    }
  });
  listen(stream, 'over', event => {
    stream.close();
    const { state: end } = JSON.parse(event.data);
    clearTimeout(timer);
    if (live.running || end === 'damaged' || !wasVerified) return again(end);
    dataSource.changed?.(100);
    if (placeNow.page === 'run' && scrollY < 50 && !queryNow().q) again(end);
  });
  listen(stream, 'gone', () => stream.close());
}

/** @param {News} news */
function showNews({ total, planned, counts }) {
  const done = byId('done'), bar = /** @type {HTMLProgressElement | null} */ (byId('progress'));
  if (done) done.textContent = numberText(total);
  if (bar) {
    bar.max = Math.max(1, planned);
    bar.value = total;
  }
  for (const field of document.querySelectorAll('[data-count]')) {
    const name = /** @type {HTMLElement} */ (field).dataset.count ?? '';
    if (counts) field.textContent = numberText(counts[name] ?? 0);
  }
}

/** Loads the page again, unless something is being written. @param {string} end */
function again(end) {
  const isBusy = document.querySelector('dialog[open]') || [...document.querySelectorAll('textarea')].some(field => field.value !== field.defaultValue);
  if (isBusy) toast(`The run is ${end}. Load the page again to see it.`);
  else location.reload();
}
