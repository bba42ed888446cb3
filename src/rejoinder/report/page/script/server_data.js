/* What the server gave with the page, and how more is asked of it. */

/** @type {First} */
const pageData = JSON.parse(byId('first')?.textContent || '{"page":""}');

/** @param {Record<string, unknown>} words */
function wordsOf(words) {
  const given = Object.entries(words).filter(([, value]) => value !== '' && value != null);
  return new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
}

/** What an answer says, or why there is none. @param {Response} answer @returns {Promise<any>} */
async function answerOf(answer) {
  const text = await answer.text();
  if (answer.ok) return answer.headers.get('content-type')?.startsWith('application/json') ? JSON.parse(text || 'null') : text;
  let words = `the server answered ${answer.status}`;
  try {
    const { message, details } = JSON.parse(text).error;
    words = details?.hint ? `${message}. ${details.hint}` : message;
  } catch {
    throw new Error(words);
  }
  throw new Error(words);
}

/** @param {string} path @param {Record<string, unknown>} [words] */
const fetchData = async (path, words = {}) => answerOf(await fetch(`${path}?${wordsOf(words)}`, { headers: { accept: 'application/json' } }));

/** A request that changes something. @param {string} method @param {string} path @param {object} body */
const sendAct = async (method, path, body) => answerOf(await fetch(`/api/v1${path}`, { method, body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }));

/** Does something, and tells what went wrong. @template T @param {() => Promise<T>} act @returns {Promise<T | null>} */
async function attempt(act) {
  try {
    return await act();
  } catch (error) {
    tellTrouble(error instanceof Error ? error.message : String(error));
    return null;
  }
}

/** @param {string} words */
function tellTrouble(words) {
  const box = h('dialog.ask', { 'aria-label': 'Not done' }, h('h2', 'Not done'), h('p', { dir: 'auto' }, plain(words)), buttonView('Close', () => box.close()));
  showDialog(box);
}

/** A dialog that is gone when it is closed. @param {HTMLDialogElement} box */
function showDialog(box) {
  listen(box, 'close', () => box.remove());
  document.body.append(box);
  box.showModal();
}
