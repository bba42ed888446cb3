/* Are two scripts the same program but for the names of what is declared in their outermost function?

   TypeScript reads both and tells what each name stands for. The trees must be the same, node by node. A name may be
   another one only where it stands for such a declaration, and then at every place.

   Arguments: where TypeScript is, a folder with `tsconfig.json`, `before0.ts`, `after0.ts` and so on, and how many pairs
   there are. Says of each pair, as JSON, what is wrong and then how many names changed. The files are read as TypeScript,
   so that types in comments are no part of the tree. */

import { pathToFileURL } from 'node:url';

const [, , typescript, folder, count] = process.argv;
const { API } = await import(pathToFileURL(`${typescript}/dist/api/sync/api.js`).href);
const { SyntaxKind } = await import(pathToFileURL(`${typescript}/dist/ast/index.js`).href);
const DECLARED = 7; // the flags of `let`, `const` and `using`
const api = new API({ cwd: folder });
const snapshot = api.updateSnapshot({ openProjects: [`${folder}/tsconfig.json`] });
const { program, checker } = snapshot.getProject(`${folder}/tsconfig.json`);

/* All nodes of a file in their order, each with the place of the node around it. */
function readFile(name) {
  const path = `${folder}/${name}`, nodes = [], parents = [];
  const wrong = program.getSyntacticDiagnostics(path);
  if (wrong.length) throw new Error(`${name} cannot be read: ${wrong[0].text ?? JSON.stringify(wrong[0])}`);
  const walk = (node, parent) => {
    const at = nodes.push(node) - 1;
    parents.push(parent);
    node.forEachChild(child => void walk(child, at));
  };
  walk(program.getSourceFile(path), -1);
  return { nodes, parents, places: new Map(nodes.map((node, n) => [`${node.kind} ${node.pos} ${node.end}`, n])) };
}

/* Where a name was declared: the place of the node in the order, or -1 for what the file does not declare. */
function declarations(file, names) {
  const symbols = checker.getSymbolAtLocation(names.map(n => file.nodes[n]));
  return names.map((n, i) => {
    const isShorthand = file.nodes[file.parents[n]].kind === SyntaxKind.ShorthandPropertyAssignment;
    const symbol = isShorthand ? checker.getShorthandAssignmentValueSymbol(file.nodes[file.parents[n]]) : symbols[i];
    const found = symbol?.declarations[0]?.resolve();
    return found ? file.places.get(`${found.kind} ${found.pos} ${found.end}`) ?? -1 : -1;
  });
}

/* The outermost function's own statements declare it, and not a function within. */
function isOutermost(file, place) {
  let functions = 0;
  for (let n = file.parents[place]; n >= 0; n = file.parents[n]) {
    if ([SyntaxKind.ArrowFunction, SyntaxKind.FunctionDeclaration, SyntaxKind.FunctionExpression, SyntaxKind.MethodDeclaration].includes(file.nodes[n].kind)) functions++;
  }
  return functions === 1;
}

function difference(number) {
  const before = readFile(`before${number}.ts`), after = readFile(`after${number}.ts`), wrong = [], names = [];
  if (before.nodes.length !== after.nodes.length) wrong.push(`${before.nodes.length} nodes became ${after.nodes.length}`);
  before.nodes.forEach((node, n) => {
    const other = after.nodes[n];
    if (node.kind !== other?.kind || before.parents[n] !== after.parents[n]) wrong.push(`node ${n}: another kind or place`);
    else if (node.kind === SyntaxKind.Identifier) names.push(n);
    else if (node.text !== other.text && node.kind !== SyntaxKind.SourceFile) wrong.push(`node ${n}: ${node.text} became ${other.text}`);
    else if (node.operator !== other.operator || (node.flags & DECLARED) !== (other.flags & DECLARED)) wrong.push(`node ${n}: another operator or flags`);
  });
  const changed = new Map();
  const one = wrong.length ? [] : declarations(before, names), two = wrong.length ? [] : declarations(after, names);
  for (const [i, place] of one.entries()) {
    const n = names[i], was = before.nodes[n].text, is = after.nodes[n].text, parent = before.nodes[before.parents[n]];
    if (place !== two[i]) wrong.push(`${was}: stands for something else as ${is}`);
    if (was === is) continue;
    const isDeclared = parent.kind === SyntaxKind.VariableDeclaration || parent.kind === SyntaxKind.FunctionDeclaration;
    const isKey = !isDeclared && parent.name === before.nodes[n];
    if (isKey || place < 0 || !isOutermost(before, place)) wrong.push(`${was}: is no name of the outermost function`);
    if ((changed.get(was) ?? is) !== is) wrong.push(`${was}: has several new names`);
    changed.set(was, is);
  }
  if (new Set(changed.values()).size !== changed.size) wrong.push('two names became one');
  return [...wrong.slice(0, 20), `${changed.size} changed`];
}

const found = Array.from({ length: Number(count) }, (_, number) => difference(number));
api.close();
console.log(JSON.stringify(found));
