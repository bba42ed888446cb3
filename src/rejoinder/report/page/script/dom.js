/* Elements. Text of others reaches the page here and only here, as text nodes: the policy of the page refuses HTML. */

/** @typedef {Node | string | number | null | undefined | false} Leaf */
/** @typedef {Array<Leaf | Children>} Children */
/** @typedef {Leaf | Children} Child */
/** @typedef {Record<string, unknown>} Attributes */

/**
 * An element, `h('p.note', { title }, 'words')`: its classes stand behind its name, attributes may follow, then what is in
 * it. An attribute that is null, undefined or false is left out; a function is a listener (`onclick`).
 *
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T | `${T}.${string}`} tag
 * @param {...(Attributes | Child)} parts
 * @returns {HTMLElementTagNameMap[T]}
 */
function h(tag, ...parts) {
  const [name, ...classes] = tag.split('.');
  const element = /** @type {HTMLElementTagNameMap[T]} */ (document.createElement(name));
  if (classes.length) element.className = classes.join(' ');
  const attributes = parts[0]?.constructor === Object ? /** @type {Attributes} */ (parts.shift()) : {};
  for (const [key, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (typeof value === 'function') element.addEventListener(key.slice(2), event => value(event));
    else element.setAttribute(key, value === true ? '' : String(value));
  }
  return fill(element, .../** @type {Child[]} */ (parts));
}

/**
 * @template {Element} T
 * @param {T} element
 * @param {...Child} children
 * @returns {T}
 */
function fill(element, ...children) {
  element.replaceChildren(...leaves(children));
  return element;
}

/**
 * @param {Child[]} children
 * @returns {(Node | string)[]}
 */
function leaves(children) {
  return children.flatMap(child => {
    if (Array.isArray(child)) return leaves(child);
    if (child == null || child === false) return [];
    return [child instanceof Node ? child : String(child)];
  });
}

/** @param {string} id */
const byId = id => document.getElementById(id);

/** Where it is in the window. @param {Element} element */
const areaOf = element => element.getBoundingClientRect();

/** @param {Element | null} element */
const hasFocus = element => document.activeElement === element;

/** Focuses without scrolling. @param {HTMLElement | null | undefined} element */
const focusOn = element => element?.focus({ preventScroll: true });

/**
 * @param {EventTarget | null} target
 * @param {string} name
 * @param {(event: any) => void} act
 */
const listen = (target, name, act) => target?.addEventListener(name, act);

/**
 * @param {Child} words
 * @param {(event: MouseEvent) => void} press
 * @param {Attributes} [more]
 */
const buttonView = (words, press, more) => h('button.btn', { type: 'button', onclick: press, ...more }, words);

/**
 * A part that is made when it is opened.
 *
 * @param {Child} words
 * @param {() => Child} make
 */
function fold(words, make) {
  const inside = h('div');
  const open = () => inside.firstChild || fill(inside, make());
  return h('details.fold', { ontoggle: open }, h('summary', words), inside);
}

const toastBox = h('div.toast', { role: 'status' });
let toastTimer = 0;

/** @param {string} words */
function toast(words) {
  toastBox.textContent = words;
  toastBox.classList.add('on');
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => toastBox.classList.remove('on'), 2000);
}

/**
 * @param {string} text
 * @param {string} what for the words that tell of it
 */
async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const box = h('textarea', text);
    document.body.append(box);
    box.select();
    document.execCommand('copy');
    box.remove();
  }
  toast(`${what} copied`);
}
