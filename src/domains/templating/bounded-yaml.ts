import type { Alias, Composer, CST, Document, Node, YAMLMap } from 'yaml'
import { yamlLibrary } from '../templating/yaml-library.ts'

/** `warnings` says whether the library's warnings (unknown tags) are problems too. */
export type YamlBounds = Readonly<{ depthMax: number; valuesMax: number; warnings: 'refused' | 'ignored' }>

/** A code of the library, or one of `TOO_DEEP`, `TOO_MANY_VALUES` and `TOO_MANY_EMPTY_LINES`. Lines count from 1. */
type YamlProblem = Readonly<{ code: string; line: number }>

/** `targets` maps each alias to its node; an alias that is not in it refers to nothing. */
export type ComposedYaml = Readonly<{ document: Document; targets: ReadonlyMap<Alias, Node> }>

/** Keys that YAML allows without `? ` are no longer than this either. */
export const yamlKeyCharsMax = 1_024

const EMPTY_RUN_MAX = 3_000
/** A dash or a comma, a key, `:`, the value, and its end; plain texts are two tokens. Anchors and tags are rare. */
const MARKS_PER_VALUE = 7

class Refused extends Error {}

/**
 * Parses one untrusted YAML document in time and space linear in the text: every token is counted before the library
 * builds anything from it, the first error ends the work, and keys and aliases are looked up instead of searched.
 */
export function composeYaml(text: string, bounds: YamlBounds): ComposedYaml | Readonly<{ problem: YamlProblem }> {
  let first: { code: string; offset: number } | undefined
  const refuse: Refuse = (code, offset) => {
    first ??= { code, offset }
    throw new Refused()
  }
  try {
    const document = compose(text, bounds, refuse)
    return { document, targets: connect(document, refuse) }
  } catch {
    const { code, offset } = first ?? { code: 'RESOURCE_EXHAUSTION', offset: 0 }
    return { problem: { code, line: text.slice(0, offset).split('\n').length } }
  }
}

type Refuse = (code: string, offset: number) => never

function compose(text: string, bounds: YamlBounds, refuse: Refuse): Document {
  const parser = new (yamlLibrary().Parser)()
  const composer = stoppingComposer(bounds, refuse)
  let documents = 0
  let document: Document | undefined
  const take = (tokens: Iterable<CST.Token>): void => {
    for (const token of tokens) {
      if (token.type === 'error') refuse('UNEXPECTED_TOKEN', token.offset)
      if (token.type === 'document' && ++documents > 1) refuse('MULTIPLE_DOCS', token.offset)
      for (const composed of composer.next(token)) document = composed
    }
  }
  for (const lexeme of countedLexemes(text, bounds, refuse)) take(parser.next(lexeme))
  take(parser.end())
  for (const composed of composer.end(true, text.length)) document = composed
  if (document === undefined) return refuse('RESOURCE_EXHAUSTION', 0)
  const [error] = document.errors
  if (error !== undefined) refuse(error.code, error.pos[0])
  return document
}

/** The library collects errors, possibly as many as the text has characters; this one stops at the first. */
function stoppingComposer(bounds: YamlBounds, refuse: Refuse): Composer {
  const composer = new (yamlLibrary().Composer)({
    schema: 'core',
    stringKeys: true,
    uniqueKeys: false,
    resolveKnownTags: false,
    prettyErrors: false,
    logLevel: 'silent',
  })
  const onError = (source: ErrorSource, code: string, _message: string, isWarning = false): void => {
    if (isWarning && bounds.warnings === 'ignored') return
    refuse(code, typeof source === 'number' ? source : Array.isArray(source) ? source[0] : source.offset)
  }
  return Object.assign(composer, { onError })
}

type ErrorSource = number | [number, number] | { offset: number }

/** The library recurses once per level, and scans runs of empty lines repeatedly: both are bounded here. */
function* countedLexemes(text: string, bounds: YamlBounds, refuse: Refuse): Generator<string> {
  let offset = 0
  let marks = 0
  let emptyRun = 0
  let flowDepth = 0
  let lineDepth = 0
  let isScalarNext = false
  let isLineStart = true
  for (const lexeme of new (yamlLibrary().Lexer)().lex(text)) {
    const type: CST.TokenType | 'scalar-text' | null = isScalarNext
      ? 'scalar-text'
      : yamlLibrary().CST.tokenType(lexeme)
    isScalarNext = type === 'scalar'
    if (type === 'newline' || type === 'space' || type === 'comment') {
      if (++emptyRun > EMPTY_RUN_MAX) refuse('TOO_MANY_EMPTY_LINES', offset)
      if (type === 'space' && isLineStart && lexeme.length > bounds.depthMax * 8) refuse('TOO_DEEP', offset)
      isLineStart = type === 'newline'
      if (isLineStart) lineDepth = 0
    } else {
      emptyRun = 0
      isLineStart = false
      if (type === 'flow-map-start' || type === 'flow-seq-start') flowDepth++
      else if (type === 'flow-map-end' || type === 'flow-seq-end') flowDepth = Math.max(0, flowDepth - 1)
      else if (type === 'flow-error-end') flowDepth = 0
      else if (type === 'seq-item-ind') lineDepth++
      else if (flowDepth === 0 && (type === 'explicit-key-ind' || type === 'map-value-ind')) lineDepth++
      // A block scalar ends with its last line break, and what follows begins a line.
      if (type === 'scalar-text' && lexeme.endsWith('\n')) [lineDepth, isLineStart] = [0, true]
      if (flowDepth > bounds.depthMax || lineDepth > bounds.depthMax + 1) refuse('TOO_DEEP', offset)
      if (++marks > bounds.valuesMax * MARKS_PER_VALUE) refuse('TOO_MANY_VALUES', offset)
    }
    if (type !== 'doc-mode' && type !== 'flow-error-end' && type !== 'scalar') offset += lexeme.length
    yield lexeme
  }
}

/** An alias refers to the last node before it with its anchor. */
function connect(document: Document, refuse: Refuse): Map<Alias, Node> {
  const anchored = new Map<string, Node>()
  const targets = new Map<Alias, Node>()
  yamlLibrary().visit(document, {
    Node(_, node) {
      if (yamlLibrary().isAlias(node)) {
        const target = anchored.get(node.source)
        if (target !== undefined) targets.set(node, target)
        return
      }
      if (node.anchor !== undefined) anchored.set(node.anchor, node)
      if (yamlLibrary().isMap(node)) refuseTwins(node, refuse)
    },
  })
  return targets
}

function refuseTwins(map: YAMLMap, refuse: Refuse): void {
  const names = new Set<unknown>()
  for (const { key } of map.items) {
    const name = yamlLibrary().isScalar(key) ? key.value : key
    if (names.has(name)) refuse('DUPLICATE_KEY', yamlLibrary().isScalar(key) ? (key.range?.[0] ?? 0) : 0)
    names.add(name)
  }
}
