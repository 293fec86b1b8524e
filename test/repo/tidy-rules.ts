import { type AstNode, dottedName, isTestFile, type SourceFile, visitNodes } from './source-files.ts'

/** How our source looks, as checks. Each says what is wrong and what to do; `size` is there when the rule is a bound. */
export type TidyFault = Readonly<{ path: string; rule: string; message: string; size?: number }>

const FILE_LINES_MAX = 400
const TOOL_LINES_MAX = 120
const FUNCTION_LINES_MAX = 70

type TidyRule = (source: SourceFile) => readonly Omit<TidyFault, 'path' | 'rule'>[]

const isToolFile = (path: string): boolean =>
  /^src\/tools\/(?!runtime\/)[^/]+\/[^/]+\.ts$/.test(path) && !path.endsWith('/index.ts') && !path.endsWith('.test.ts')

const at = (source: SourceFile, offset: number, text: string): { message: string } => ({
  message: `${source.path}:${source.lineOf(offset)} ${text}`,
})

const fileLength: TidyRule = (source) => {
  const size = source.text.split('\n').length - 1
  const max = isToolFile(source.path) ? TOOL_LINES_MAX : FILE_LINES_MAX
  if (size <= max) return []
  return [{ size, message: `${source.path} has ${size} lines; at most ${max}. Give a part of it a name and a file.` }]
}

const functionTypes = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression'])

/** The lines of functions inside it belong to them: a factory is as long as what it does itself. */
const functionLength: TidyRule = (source) => {
  const linesOf = (node: AstNode): number => source.lineOf(node.end) - source.lineOf(node.start)
  const ownLines = new Map<AstNode, number>()
  visitNodes(source, (node, parents) => {
    if (!functionTypes.has(node.type)) return
    ownLines.set(node, linesOf(node) + 1)
    const outer = parents.findLast((parent) => functionTypes.has(parent.type))
    if (outer !== undefined) ownLines.set(outer, ownLines.get(outer)! - linesOf(node))
  })
  return [...ownLines]
    .filter(([, size]) => size > FUNCTION_LINES_MAX)
    .map(([node, size]) => ({
      size,
      ...at(source, node.start, `begins a function of ${size} lines; at most ${FUNCTION_LINES_MAX}. Split it by name.`),
    }))
}

const fileName: TidyRule = ({ path }) => {
  const wrong = path.split('/').find((part) => !/^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9-]+)*$/.test(part))
  return wrong === undefined ? [] : [{ message: `${path}: '${wrong}' is not in kebab-case.` }]
}

const emptyName: TidyRule = ({ path }) => {
  const word = path.split(/[/.-]/).find((part) => /^(utils?|helpers?|common|misc|managers?)$/.test(part))
  if (word === undefined) return []
  return [{ message: `${path}: '${word}' says nothing. Name it after what it does, or put it beside its user.` }]
}

/** Words of our own for what the field has a word for; see docs/glossary.md. */
const ownWords: ReadonlyMap<string, string> = new Map([
  ['breath', 'time slicer'],
  ['begun', 'started, opened or recovered'],
  ['desk', 'invoker, broker, directory or locks'],
  ['door', 'transport or entry point'],
  ['hopeless', 'nonRetryable'],
  ['leftover', 'pending cleanup'],
  ['place', 'slot, handle, cursor or path'],
  ['remark', 'warning'],
  ['scene', 'context'],
  ['seat', 'prewarmed slot'],
  ['starter', 'owner'],
  ['somebody', 'caller or owner'],
  ['stranger', 'untrusted party'],
  ['surrounding', 'environment'],
  ['whoever', 'caller or owner'],
  ['wish', 'request, intent or prompt'],
  ['withheld', 'redacted or hidden'],
  ['withhold', 'redact or hide'],
])
/** Fields that are published or on disk keep their names: a word here is allowed as a whole identifier in these files. */
const publishedFields: ReadonlyMap<string, readonly string[]> = new Map([
  [
    'door',
    [
      'src/app/ownership/hello.ts',
      'src/engine/ports.ts',
      'src/engine/requests.ts',
      'test/executions/tools.test.ts',
      'test/model-proxy/pass-through.test.ts',
      'test/pipeline/record.test.ts',
      'test/support/app.ts',
      'test/workflows/states.test.ts',
    ],
  ],
  ['attend', ['src/supervisor/handlers.ts', 'src/supervisor/protocol.ts']],
  [
    // The stored spawn depth of a run; in a volume, the word of Kubernetes.
    'generation',
    [
      'src/domains/executions/forks.ts',
      'src/domains/executions/ports.ts',
      'src/domains/executions/service.ts',
      'src/domains/intents/ports.ts',
      'src/domains/intents/service.ts',
      'src/domains/runs/spawn-depth.ts',
      'src/domains/workflows/new-run.ts',
      'src/domains/workflows/persistent-volumes.ts',
      'src/domains/workflows/run-ports.ts',
      'src/domains/workflows/run-subworkflow.ts',
    ],
  ],
  [
    'takes',
    [
      'src/backends/namespaces/index.ts',
      'src/backends/namespaces/supervisor-client.ts',
      'src/supervisor/protocol.ts',
      'src/supervisor/serve-requests.ts',
    ],
  ],
])
/** Own words only as a whole name: part of one, they are plain English. */
const ownNames: ReadonlyMap<string, string> = new Map([
  ['generation', 'spawn depth, or authoring'],
  ['gives', 'result'],
  ['takes', 'params'],
])
/** Own words in names of the program; tests may use them as plain English. */
const ownSourceWords: ReadonlyMap<string, string> = new Map([
  ['asked', 'requested, or what was requested'],
  ['attend', 'connect or lease'],
  ['errand', 'request'],
  ['heir', 'successor'],
  ['wanted', 'requested, expected or desired'],
  ['wing', 'service group'],
  ['standing', 'access'],
  ['given', 'input, or what it is'],
  ['gone', 'revoked, removed, expired or closed'],
  ['kept', 'retained, persistent or cached'],
  ['room', 'capacity, budget or space'],
  ['shown', 'displayed or presented'],
])
/** Fields of answers, error details, stored records, tables and wire protocols, and the entries of a list of English verbs. */
const publishedNames: ReadonlySet<string> = new Set(['snapshots_kept', 'kept_until'])
const publishedSourceFields: ReadonlyMap<string, readonly string[]> = new Map([
  ['asked', ['src/domains/executions/tool-calls.ts']],
  [
    'wanted',
    [
      'src/backends/namespaces/index.ts',
      'src/domains/teams/budgets.ts',
      'src/domains/workflows/run-network.ts',
      'src/domains/workspaces/admission.ts',
      'src/stores/files/transfer-folder.ts',
      'src/stores/files/transfer-usage.ts',
      'src/stores/sql/governance-schema.ts',
      'src/stores/sql/installation-request-store.ts',
      'src/stores/sql/schema.ts',
      'src/stores/sql/workspace-store.ts',
      'src/supervisor/handlers.ts',
      'src/supervisor/protocol.ts',
    ],
  ],
  ['given', ['src/kernel/stem.ts', 'src/tools/runtime/search/recover-call.ts']],
  [
    'kept',
    [
      'src/domains/executions/program.ts',
      'src/domains/executions/workspace.ts',
      'src/domains/intents/workbench.ts',
      'src/domains/runs/workspace-client.ts',
      'src/kernel/stem.ts',
    ],
  ],
  ['shown', ['src/kernel/stem.ts']],
])
const wordsOf = (name: string): string[] =>
  name.split(/[^A-Za-z]+|(?<=[a-z])(?=[A-Z])/).map((part) => part.toLowerCase().replace(/(?<=wish)es$|s$/, ''))
const ownWordIn = (name: string, isSource: boolean): string | undefined =>
  ownNames.has(name) ? name : wordsOf(name).find((part) => ownWords.has(part) || (isSource && ownSourceWords.has(part)))

const ownWord: TidyRule = (source) => {
  const told = (word: string, name: string): string =>
    `'${name}' has '${word}'; say ${ownWords.get(word) ?? ownNames.get(word) ?? ownSourceWords.get(word)}.`
  const isSource = source.path.startsWith('src/') && !isTestFile(source.path)
  const inPath = ownWordIn(source.path, isSource)
  const faults = inPath === undefined ? [] : [{ message: `${source.path}: ${told(inPath, source.path)}` }]
  visitNodes(source, (node) => {
    // Codes are public: they keep their names.
    const name = node.type === 'Identifier' ? String(node['name']).replace(/^ERR_.*/, '') : ''
    const word = ownWordIn(name, isSource)
    if (publishedNames.has(name)) return
    if ([publishedFields, publishedSourceFields].some((fields) => fields.get(name)?.includes(source.path))) return
    if (word !== undefined) faults.push(at(source, node.start, told(word, name)))
  })
  return faults
}

const defaultExport: TidyRule = (source) => {
  if (isToolFile(source.path)) return []
  return (source.program['body'] as AstNode[])
    .filter((node) => node.type === 'ExportDefaultDeclaration')
    .map((node) => at(source, node.start, 'exports a default. Only tool definitions do; give the export a name.'))
}

const exportAll: TidyRule = (source) =>
  (source.program['body'] as AstNode[])
    .filter((node) => node.type === 'ExportAllDeclaration')
    .map((node) => at(source, node.start, 'exports everything of a module. Name what is exported.'))

/** An import statement of a built-in module reads all its exports, and those of `node:http` load a client that we do not use. */
const heavyImport: TidyRule = (source) => {
  if (!source.path.startsWith('src/') || isTestFile(source.path)) return []
  return (source.program['body'] as AstNode[])
    .filter((node) => node.type === 'ImportDeclaration' && node['importKind'] !== 'type')
    .filter((node) => (node['source'] as { value: string }).value === 'node:http')
    .map((node) =>
      at(source, node.start, 'imports node:http. Take it from kernel/node-http.ts; types may be imported.'),
    )
}

const inComments =
  (pattern: RegExp, advice: string): TidyRule =>
  (source) =>
    source.comments.flatMap((comment) => {
      const found = pattern.exec(comment.value)
      return found === null ? [] : [at(source, comment.start, `says '${found[0]}' in a comment. ${advice}`)]
    })

const marker = inComments(/\b(TODO|FIXME|XXX|HACK)\b/, 'Do it, or write down in an issue what is missing.')

const history = inComments(
  /\b(used to be|previously|formerly|was renamed|changed (from|in v?\d)|added (in v?\d|by)|refactored|issue #?\d+|ticket|PR #?\d+|#\d{2,})\b/i,
  'A comment says what holds and why; what was, is in the history.',
)

/**
 * Words of our own in comments, texts, titles of tests and documents. In contracts the party is named: the caller, the owner, the
 * process, or an untrusted party. Errors use the words of JSON: string and object.
 */
const ownProse =
  /\b(whoever|somebody|strangers?|wish(es|ed)?|remarks?|hopeless|leftovers?|surroundings|withh[oe]ld|desks?|must be a text(?! file)|group of fields|sweep of deaths|Shortly:)(?![\w])/i

/** What is wrong with the prose of `text`, if anything. */
export const ownProseIn = (text: string): Readonly<{ index: number; word: string }> | undefined => {
  const found = ownProse.exec(text)
  return found === null ? undefined : { index: found.index, word: found[0] }
}

const ownProseRule: TidyRule = (source) => {
  if (source.path.startsWith('test/repo/')) return []
  const found = ownProseIn(source.text)
  return found === undefined ? [] : [at(source, found.index, `says '${found.word}'. Use the word of the field.`)]
}

const machinePath: TidyRule = (source) => {
  const found = /(?<![\w.])\/(work|root)\/\w+/.exec(source.text)
  if (found === null) return []
  return [at(source, found.index, `mentions ${found[0]}, a path of one machine.`)]
}

const testWords = new Set(['describe', 'it', 'test', 'suite'])
const silencing = new Set(['only', 'skip', 'todo', 'skipIf', 'runIf', 'fails'])

const silencedTest: TidyRule = (source) => {
  if (!isTestFile(source.path)) return []
  const found: { message: string }[] = []
  visitNodes(source, (node) => {
    const [word, ...rest] = dottedName(node)?.split('.') ?? []
    const silenced = rest.at(-1)
    if (word === undefined || !testWords.has(word) || silenced === undefined || !silencing.has(silenced)) return
    found.push(at(source, node.start, `has ${word}.${rest.join('.')}. Every test runs, and what it needs it starts.`))
  })
  return found
}

/** A test that is tried again until it passes proves nothing. */
const retriedTest: TidyRule = (source) => {
  if (!isTestFile(source.path)) return []
  const found: { message: string }[] = []
  visitNodes(source, (node, parents) => {
    if (node.type !== 'Property' || (node['key'] as AstNode)['name'] !== 'retry') return
    const call = parents.at(-2)
    const word = call?.type === 'CallExpression' ? dottedName(call['callee'])?.split('.')[0] : undefined
    if (word === undefined || !testWords.has(word)) return
    found.push(at(source, node.start, 'retries a test. Wait on a condition instead.'))
  })
  return found
}

export const tidyRules: Readonly<Record<string, TidyRule>> = {
  'own-word': ownWord,
  'file-length': fileLength,
  'function-length': functionLength,
  'file-name': fileName,
  'empty-name': emptyName,
  'default-export': defaultExport,
  'export-all': exportAll,
  'heavy-import': heavyImport,
  marker,
  history,
  'machine-path': machinePath,
  'own-prose': ownProseRule,
  'silenced-test': silencedTest,
  'retried-test': retriedTest,
}

export const checkTidy = (source: SourceFile): TidyFault[] =>
  Object.entries(tidyRules).flatMap(([rule, check]) =>
    check(source).map((fault) => ({ path: source.path, rule, ...fault })),
  )

/**
 * Known faults. The list may only shrink: an entry that is not needed any more fails the test, and so does one whose file
 * or function has grown beyond `sizeMax`.
 */
export type TidyException = Readonly<{ path: string; rule: string; sizeMax?: number; reason: string }>

export const tidyExceptions: readonly TidyException[] = []
