/* What the scripts are given, and what they hand each other. tsc and editors read it; pages do not have it. */

type Outcome = 'first' | 'recovered' | 'failed' | 'error' | 'skipped';

type Change = 'worse' | 'better' | 'words' | 'same' | 'only';

/** One conversation in the list, or a pair of them. */
interface Row {
  at: number;
  suite: string;
  case: string;
  title: string;
  tags?: string[];
  target: string;
  variant?: string | null;
  trial: number;
  outcome: Outcome;
  /** The reason why it decides nothing. */
  aside?: string | null;
  /** `Recovered on turn 2`. */
  word: string;
  /** `3 turns`. */
  length: string;
  /** In conversations and pages of the server, not in the index of a report. */
  turns?: number;
  /** The turn. */
  recovered_on?: number;
  /** Tokens. */
  used?: string;
  time?: string;
  score?: string;
  cost?: string;
  why?: string;
  /** The part of the reply that it is about. */
  said?: string;
  /** `same words twice`. */
  same?: string;
  /** The part of the transcript that was sought. */
  hit?: string;
  has_body?: boolean;
  /** Of a pair. */
  change?: Change;
  /** Of a pair. */
  before?: {outcome: Outcome, word: string} | null;
  /** Of a pair: the first turn that differs, 0 for none. */
  differs?: number;
}

interface Head {
  run: string;
  title: string;
  targets: string[];
  variants: string[];
  /** Conversations of a block. */
  block: number;
  /** The trust in each judge, by its digest. */
  judges?: Record<string, string>;
  /** Whether the command may be offered. */
  fork?: boolean;
  /** The two runs that are compared. */
  pair?: {a: string, b: string} | null;
  /** Of all cases, to choose from. */
  tags?: string[];
  /** Conversations in all. */
  total?: number;
}

interface Check {
  called: string;
  label: string;
  state: 'passed' | 'failed' | 'error';
  reason: string;
  /** The reason in fewer words, where they are others; empty if it says nothing more. */
  told?: string | null;
  score?: string;
  /** As a sentence. */
  scored?: string;
  judge?: string | null;
  judged_by?: string | null;
  /** Each with whether it passes. */
  votes?: [string, boolean][];
  /** Pairs of code points in the response. */
  spans?: [number, number][];
  forbidden?: boolean;
  hits?: string[];
  misses?: string[];
  children?: Check[];
}

interface Tool {
  name: string;
  arguments: string;
  server?: string | null;
  result?: string | null;
  status?: string | null;
  note?: string | null;
}

interface Turn {
  turn: number;
  depth: number;
  label?: string;
  prompt: string;
  response?: string | null;
  /** The turn with the same words. */
  same_as?: number;
  /** The turn with nearly the same words. */
  near?: {turn: number, share: string};
  /** The nearest miss in the response. */
  miss?: [number, number];
  outcome: 'passed' | 'failed' | 'error';
  /** `2 of 3 checks failed`. */
  word?: string;
  checks?: Check[];
  broke?: Check[];
  tools?: Tool[];
  thinking?: string | null;
  diff?: string | null;
  model?: string | null;
  /** The size of what it thought. */
  thought?: string;
  tokens?: number;
  used?: string;
  cost?: string;
  time?: string;
  notes?: string[];
  asked_by?: {turn: number, check: number[], because: string} | null;
  sent?: {kept: number, added: {role: string, content: string}[], size: string} | null;
  simulated?: boolean;
  doubts?: boolean;
  hint?: string | null;
}

interface Conversation {
  row: Row;
  file?: string;
  line?: number;
  /** The most important one first. */
  reasons?: {where?: string, what: string, text: string, silent?: boolean, turn?: number | null, said?: string}[];
  system?: string;
  /** The request had no place for it. */
  unsent?: boolean;
  system_size?: string;
  output_schema?: string;
  output_schema_size?: string;
  turns?: Turn[];
  checks?: Check[];
  steps?: {step: number, name: string | null, status: string}[];
  notes?: string[];
  /** Its course, by labels. */
  course?: [string, string, boolean][];
  fork?: {run: string, turns: number} | null;
  control?: Turn | null;
  error?: {type: string, message: string, turn: number} | null;
}

/** The content of the address bar. */
interface Place {
  page: 'run' | 'conversation' | 'compare';
  address: Address | null;
  other: Address | null;
  /** 0 for the beginning. */
  turn: number;
  /** Null where the address has no filter. */
  query: Query | null;
}

interface Source {
  head: () => Head;
  find: (query: Query, from: number, count: number) => Promise<{total: number, rows: Row[], counts: Record<string, number>}>;
  place: (address: Address, query: Query) => Promise<number>;
  conversation: (address: Address) => Promise<Conversation | null>;
  siblings: (address: Address) => Promise<Row[]>;
  /** Set by the list. */
  changed?: (percent: number) => void;
}

interface Addresses {
  read: () => Place;
  href: (place: Place) => string;
  of: (link: Element) => Place | null;
}

type Address = {suite: string, case: string, target: string, variant: string | null, trial: number, side?: 'a' | 'b'};

/** `view`: the panel that is shown instead of the list. */
type Query = {show: string, target: string, variant: string, tag: string, q: string, why: string, view: string};

/** The data that is in the page. */
interface First {
  page: string;
  head?: Head;
  tags?: string[];
  query?: Query;
  found?: Found | null;
  conversation?: Conversation | null;
  live?: boolean | {running: boolean, rows: number, whole: boolean} | null;
  /** Whether something may be changed. */
  acts?: boolean;
  state?: string;
  /** Another one when the run has begun, was killed, goes on or has ended. */
  mark?: string;
  /** Whether this server started it. */
  stops?: boolean;
  /** Whether it ended early. */
  resumes?: boolean;
  /** Did some of its conversations not pass? */
  failed?: boolean;
  targets?: string[];
  notes?: {tags: string[], note: string};
  run?: string;
  check?: string;
  /** The number that people gave for the judge. */
  labels?: number;
  /** Whether the judge has a passport. */
  is_tested?: boolean;
  given?: GivenLabel[];
  items?: LabelItem[];
  done?: string[];
  first?: LabelReply | null;
}

type Found = {total: number, rows: Row[], counts: Record<string, number>};

type GivenLabel = {run: string, item: LabelItem, label: 'pass' | 'fail', note: string};
type LabelItem = {id: string, suite: string, case: string, target: string, variant: string | null, trial: number, turn: number | null, check: number[]};

type LabelReply = {title: string, prompt: string, reply: string, asked: string};

type LabelVerdict = {state: string, score: string, reason: string, judge: string | null};

type Flight = {case: string, target: string, trial: number, turn: number, age_s: number};

type News = {rows: Row[], total: number, planned: number, counts: Record<string, number> | null, state: string, mark: string, whole: boolean, in_flight: Flight[], waiting: number};
