/* A run that goes on: rows as they come, how many are done, and its end. */

/** @typedef {{rows: Row[], total: number, planned: number, counts: Record<string, number> | null, state: string, mark: string}} News */

/** Milliseconds between two looks at the list. */
const BREATH = 400;

/** Milliseconds until a server that refused is asked again; one that is gone is asked again by the browser. */
const REFUSED = 5000;

/** @param {string} run @param {{running: boolean, rows: number, whole: boolean}} live */
function follow(run, live) {
  const stream = new EventSource(`/data/runs/${run}/live?after=${live.running ? live.rows : 0}`);
  let timer = 0;
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
function showNews({ total, planned, counts }) {
  const done = byId('done'), bar = /** @type {HTMLProgressElement | null} */ (byId('progress'));
  if (done) done.textContent = group3(total);
  if (bar) {
    bar.max = Math.max(1, planned);
    bar.value = total;
  }
  for (const field of document.querySelectorAll('[data-count]')) {
    const name = /** @type {HTMLElement} */ (field).dataset.count ?? '';
    if (counts) field.textContent = group3(counts[name] ?? 0);
  }
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
