/* What the application shows, where it comes from, and the addresses of all of it. */

/** @type {Query} */
const NO_QUERY = { show: '', target: '', variant: '', tag: '', q: '', why: '', view: '' };

/** @param {Row} row @returns {Address} */
const addressOf = row => ({ suite: row.suite, case: row.case, target: row.target, variant: row.variant ?? null, trial: row.trial });

/** @param {Address | null} one @param {Address | null} other */
const isSame = (one, other) => !!one && !!other && namesOf(one).join('/') === namesOf(other).join('/');

/** Each name in percent signs, so that a slash in it parts nothing. @param {Address} address */
const namesOf = address => [address.suite, address.case, ...partsOf(address)].map(encodeURIComponent);

/** @param {Address} address */
const partsOf = address => [address.target, address.variant ?? '-', String(address.trial)];

/** @param {Place} place */
function pathOf({ page, address, other, turn, query }) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) if (value) words.set(name, value);
  if (turn) words.set('turn', String(turn));
  const search = String(words) && `?${words}`;
  if (!address) return `/${search}`;
  const beside = page === 'compare' && other ? ['compare', ...namesOf(address), ...partsOf(other).map(encodeURIComponent)] : [address.side ?? 'c', ...namesOf(address)];
  return `/${beside.join('/')}${search}`;
}

/**
 * @param {string} path
 * @param {string} search
 * @returns {Place | null} null for an address that is none of ours
 */
function placeOf(path, search) {
  const words = new URLSearchParams(search);
  const [kind = '', suite, name, ...parts] = path.split('/').slice(1).map(decoded);
  /** @type {Query | null} */
  let query = null;
  for (const key of /** @type {(keyof Query)[]} */ (Object.keys(NO_QUERY))) {
    const value = words.get(key);
    if (value) query = { ...query ?? NO_QUERY, [key]: value };
  }
  /** @type {Place} */
  const place = { page: 'run', address: null, other: null, turn: Number(words.get('turn')) || 0, query };
  if (kind === '') return place;
  /** @param {string[]} of @returns {Address} */
  const address = ([target = '', variant, trial]) => ({ suite: suite ?? '', case: name ?? '', target, variant: variant === '-' ? null : variant ?? null, trial: Number(trial) || 1 });
  const one = address(parts);
  if (kind === 'c') return { ...place, page: 'conversation', address: one };
  if (kind === 'a' || kind === 'b') return { ...place, page: 'conversation', address: { ...one, side: kind } };
  return kind === 'compare' ? { ...place, page: 'compare', address: one, other: address(parts.slice(3)) } : null;
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @type {Place} */
const RUN = { page: 'run', address: null, other: null, turn: 0, query: null };

/** As it is written: links in charts have nothing else. @param {Element} link */
const hrefOf = link => link.getAttribute('href') ?? '';
