/* What the application shows, where it comes from, and the addresses of all of it. */

/**
 * @typedef {object} Row one conversation in the list, or a pair of them
 * @property {number} at
 * @property {string} suite
 * @property {string} case
 * @property {string} title
 * @property {string[]} [tags]
 * @property {string} target
 * @property {string | null} [variant]
 * @property {number} trial
 * @property {Outcome} outcome
 * @property {string | null} [aside] why it decides nothing
 * @property {string} word `Recovered on turn 2`
 * @property {string} length `3 turns`
 * @property {number} [turns] in conversations and pages of the server, not in the index of a report
 * @property {number} [recovered_on] the turn
 * @property {string} [used] tokens
 * @property {string} [time]
 * @property {string} [score]
 * @property {string} [cost]
 * @property {string} [why]
 * @property {string} [said] the part of the reply that it is about
 * @property {string} [same] `same words twice`
 * @property {string} [hit] the part of the transcript that was sought
 * @property {boolean} [has_body]
 * @property {Change} [change] of a pair
 * @property {{outcome: Outcome, word: string} | null} [before] of a pair
 * @property {number} [differs] of a pair: the first turn that differs, 0 for none
 */
/**
 * @typedef {object} Head
 * @property {string} run
 * @property {string} title
 * @property {string[]} targets
 * @property {string[]} variants
 * @property {number} block conversations a block
 * @property {Record<string, string>} [judges] what is known of a judge, by its digest
 * @property {boolean} [fork] may the command be offered?
 * @property {{a: string, b: string} | null} [pair] the two runs that are compared
 * @property {string[]} [tags] of all cases, to choose from
 * @property {number} [total] conversations in all
 */
/**
 * @typedef {object} Check
 * @property {string} called
 * @property {string} label
 * @property {'passed' | 'failed' | 'error'} state
 * @property {string} reason
 * @property {string} [score]
 * @property {string} [scored] as a sentence
 * @property {string | null} [judge]
 * @property {string | null} [judged_by]
 * @property {[string, boolean][]} [votes] and whether each passes
 * @property {[number, number][]} [spans] pairs of code points in the response
 * @property {boolean} [forbidden]
 * @property {string[]} [hits]
 * @property {string[]} [misses]
 * @property {Check[]} [children]
 */
/**
 * @typedef {object} Tool
 * @property {string} name
 * @property {string} arguments
 * @property {string | null} [server]
 * @property {string | null} [result]
 * @property {string | null} [status]
 * @property {string | null} [note]
 */
/**
 * @typedef {object} Turn
 * @property {number} turn
 * @property {number} depth
 * @property {string} [label]
 * @property {string} prompt
 * @property {string | null} [response]
 * @property {number} [same_as] the turn with the same words
 * @property {{turn: number, share: string}} [near] the turn with nearly the same words
 * @property {[number, number]} [miss] the nearest miss in the response
 * @property {'passed' | 'failed' | 'error'} outcome
 * @property {string} [word] `2 of 3 checks failed`
 * @property {Check[]} [checks]
 * @property {Check[]} [broke]
 * @property {Tool[]} [tools]
 * @property {string | null} [thinking]
 * @property {string | null} [diff]
 * @property {string | null} [model]
 * @property {string} [thought] the size of what it thought
 * @property {number} [tokens]
 * @property {string} [used]
 * @property {string} [cost]
 * @property {string} [time]
 * @property {string[]} [notes]
 * @property {{turn: number, check: number[], because: string} | null} [asked_by]
 * @property {{kept: number, added: {role: string, content: string}[], size: string} | null} [sent]
 * @property {boolean} [simulated]
 * @property {boolean} [doubts]
 * @property {string | null} [hint]
 */
/**
 * @typedef {object} Conversation
 * @property {Row} row
 * @property {string} [file]
 * @property {number} [line]
 * @property {{where?: string, what: string, text: string, turn?: number | null, said?: string}[]} [reasons] the most important one first
 * @property {string} [system]
 * @property {string} [system_size]
 * @property {Turn[]} [turns]
 * @property {Check[]} [checks]
 * @property {{step: number, name: string | null, status: string}[]} [steps]
 * @property {string[]} [notes]
 * @property {[string, string, boolean][]} [course] how it went, by labels
 * @property {{run: string, turns: number} | null} [fork]
 * @property {Turn | null} [control]
 * @property {{type: string, message: string, turn: number} | null} [error]
 */
/** @typedef {{suite: string, case: string, target: string, variant: string | null, trial: number, side?: 'a' | 'b'}} Address */
/** @typedef {{show: string, target: string, variant: string, tag: string, q: string, why: string, view: string}} Query `view`: the panel that is shown instead of the list */
/**
 * @typedef {object} Place what the address bar says
 * @property {'run' | 'conversation' | 'compare'} page
 * @property {Address | null} address
 * @property {Address | null} other
 * @property {number} turn 0 for the beginning
 * @property {Query | null} query null where the address has no filter
 */
/**
 * @typedef {object} Source
 * @property {() => Head} head
 * @property {(query: Query, from: number, count: number) => Promise<{total: number, rows: Row[], counts: Record<string, number>}>} find
 * @property {(address: Address, query: Query) => Promise<number>} place
 * @property {(address: Address) => Promise<Conversation | null>} conversation
 * @property {(address: Address) => Promise<Row[]>} siblings
 * @property {(percent: number) => void} [changed] set by the list
 */
/**
 * @typedef {object} Addresses
 * @property {() => Place} read
 * @property {(place: Place) => string} href
 * @property {(link: Element) => Place | null} of
 */

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
