import type { Document, Pair, YAMLMap } from 'yaml'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { type ComposedYaml, composeYaml } from '../templating/bounded-yaml.ts'
import { yamlAdvice } from '../templating/yaml-advice.ts'
import { yamlLibrary } from '../templating/yaml-library.ts'

/** Front matter as plain data; `broken` is the reason if there is a block that is not a YAML map. */
type Frontmatter =
  | Readonly<{ kind: 'none' }>
  | Readonly<{ kind: 'fields'; fields: Fields }>
  | Readonly<{ kind: 'broken'; reason: string }>
export type Fields = Readonly<Record<string, Json>>

/** The position of the YAML in a note, and of the text after the block. */
type Block = Readonly<{ yamlStart: number; yamlEnd: number; bodyStart: number }>

const NESTING_MAX = 32

/** A block is a first line `---` and everything up to the next line `---`. Without the second there is no block. */
function findBlock(text: string): Block | undefined {
  const opening = /^\uFEFF?---[ \t]*\r?\n/.exec(text)
  if (opening === null) return undefined
  const yamlStart = opening[0].length
  const closing = /(?<=\n)---[ \t]*(?:\r?\n|(?![\s\S]))/g
  closing.lastIndex = yamlStart
  const end = closing.exec(text)
  return end === null ? undefined : { yamlStart, yamlEnd: end.index, bodyStart: end.index + end[0].length }
}

/** Where the text of a note begins: after its front matter, whether or not that can be parsed. */
export const bodyStart = (text: string): number => findBlock(text)?.bodyStart ?? (text.startsWith('\uFEFF') ? 1 : 0)

export function readFrontmatter(text: string): Frontmatter {
  const block = findBlock(text)
  if (block === undefined) return { kind: 'none' }
  const read = readYaml(text.slice(block.yamlStart, block.yamlEnd))
  return 'reason' in read ? { kind: 'broken', reason: read.reason } : { kind: 'fields', fields: read.fields }
}

/**
 * The note with the field set. Everything else stays the same to the byte: other fields, comments, the text. A block
 * that cannot be parsed is refused, never replaced.
 */
export function setField(text: string, key: string, value: Json): string {
  const newline = /\r?\n/.exec(text)?.[0] ?? '\n'
  const rendered = renderField(key, value, newline)
  const block = findBlock(text)
  if (block === undefined) {
    const mark = text.startsWith('\uFEFF') ? '\uFEFF' : ''
    return `${mark}---${newline}${rendered}${newline}---${newline}${text.slice(mark.length)}`
  }
  const yaml = text.slice(block.yamlStart, block.yamlEnd)
  const { fields, document } = requireFields(yaml)
  const expected = { ...fields, [key]: value }
  const span = spanOf(yaml, document, key)
  const edited =
    span === undefined
      ? `${yaml}${yaml === '' || yaml.endsWith('\n') ? '' : newline}${rendered}${newline}`
      : yaml.slice(0, span.start) + rendered + yaml.slice(span.end)
  return withYaml(
    text,
    block,
    confirmed(edited, expected, () => document.set(key, value), document),
  )
}

/** The note without the field; undefined if it has no such field. An empty block is removed. */
export function deleteField(text: string, key: string): string | undefined {
  const block = findBlock(text)
  if (block === undefined) return undefined
  const yaml = text.slice(block.yamlStart, block.yamlEnd)
  const { fields, document } = requireFields(yaml)
  if (!Object.hasOwn(fields, key)) return undefined
  const { [key]: _, ...expected } = fields
  const span = spanOf(yaml, document, key)
  const lineEnd = span === undefined ? -1 : yaml.indexOf('\n', span.end)
  const edited = span === undefined ? yaml : yaml.slice(0, span.start) + (lineEnd < 0 ? '' : yaml.slice(lineEnd + 1))
  const remaining = confirmed(edited, expected, () => document.delete(key), document)
  if (remaining.trim() !== '') return withYaml(text, block, remaining)
  return (text.startsWith('\uFEFF') ? '\uFEFF' : '') + text.slice(block.bodyStart)
}

const withYaml = (text: string, block: Block, yaml: string): string =>
  text.slice(0, block.yamlStart) + yaml + text.slice(block.yamlEnd)

type ReadYaml = Readonly<{ fields: Fields; document: Document }> | Readonly<{ reason: string }>

/** Total: any text gives fields or a reason, in bounded time. */
function readYaml(yaml: string): ReadYaml {
  if (yaml.length > limits.vaultFrontmatterCharsMax) {
    return { reason: `it is longer than ${limits.vaultFrontmatterCharsMax} characters` }
  }
  const composed = composeYaml(yaml, {
    depthMax: NESTING_MAX,
    valuesMax: limits.vaultFrontmatterCharsMax,
    warnings: 'ignored',
  })
  if ('problem' in composed) {
    const { code, line } = composed.problem
    if (code === 'TOO_DEEP') return { reason: `it is nested deeper than ${NESTING_MAX} levels` }
    return { reason: `it is not valid YAML: ${yamlAdvice(code)} (line ${line + 1})` }
  }
  const { document, targets } = composed
  if (document.contents === null || isEmptyScalar(document.contents)) return { fields: {}, document }
  if (!yamlLibrary().isMap(document.contents)) return { reason: 'it is not an object' }
  const walk: Walk = { targets, left: limits.vaultFrontmatterCharsMax, depth: 0 }
  const fields = plain(document.contents, walk)
  return fields === undefined
    ? { reason: 'it has aliases that are undefined, circular or too large' }
    : { fields: fields as Fields, document }
}

type Walk = { targets: ComposedYaml['targets']; left: number; depth: number }

/**
 * Aliases count as their expansion; undefined if that is too large. YAML has numbers that JSON lacks: they become null.
 */
function plain(node: unknown, walk: Walk): Json | undefined {
  if (walk.left-- <= 0 || walk.depth > NESTING_MAX) return undefined
  walk.depth++
  try {
    if (yamlLibrary().isAlias(node)) return walk.targets.has(node) ? plain(walk.targets.get(node), walk) : undefined
    if (yamlLibrary().isSeq(node)) return allOf(node.items.map((item) => plain(item, walk)))
    if (yamlLibrary().isMap(node)) {
      const values = allOf(node.items.map(({ value }) => plain(value, walk)))
      const names = node.items.map(({ key }) => String(yamlLibrary().isScalar(key) ? key.value : key))
      return values && Object.fromEntries(names.map((name, index) => [name, values[index]!]))
    }
    return yamlLibrary().isScalar(node) ? (JSON.parse(JSON.stringify(node.value) ?? 'null') as Json) : null
  } finally {
    walk.depth--
  }
}

const allOf = (values: readonly (Json | undefined)[]): Json[] | undefined =>
  values.includes(undefined) ? undefined : (values as Json[])

const isEmptyScalar = (node: unknown): boolean => yamlLibrary().isScalar(node) && node.value === null

function requireFields(yaml: string): Readonly<{ fields: Fields; document: Document }> {
  const read = readYaml(yaml)
  if ('reason' in read) throw frontmatterBroken(read.reason)
  return read
}

export const frontmatterBroken = (reason: string): AppError =>
  new AppError(
    'ERR_FRONTMATTER_INVALID',
    `The front matter of this note cannot be changed: ${reason}. Nothing was changed; repair the block and try again.`,
    { reason },
  )

/** `key: value` without the last line break. Multi-line texts are quoted, so that their end is unambiguous. */
const renderField = (key: string, value: Json, newline: string): string =>
  yamlLibrary()
    .stringify({ [key]: value }, { lineWidth: 0, blockQuote: false, compat: 'yaml-1.1' })
    .trimEnd()
    .replaceAll('\n', newline)

/** From the key to the end of its value, if the field has lines of its own. */
function spanOf(yaml: string, document: Document, key: string): Readonly<{ start: number; end: number }> | undefined {
  const map = document.contents as YAMLMap | null
  if (map === null || !yamlLibrary().isMap(map) || map.flow === true) return undefined
  const pair = (map.items as Pair<unknown, unknown>[]).find(
    (item) => yamlLibrary().isScalar(item.key) && item.key.value === key,
  )
  const start = rangeOf(pair?.key)?.[0]
  const valueEnd = (rangeOf(pair?.value) ?? rangeOf(pair?.key))?.[1]
  if (start === undefined || valueEnd === undefined) return undefined
  if (start > 0 && yaml[start - 1] !== '\n') return undefined
  return { start, end: start + yaml.slice(start, valueEnd).trimEnd().length }
}

const rangeOf = (node: unknown): readonly [number, number, number] | undefined =>
  (node as { range?: [number, number, number] | null } | undefined)?.range ?? undefined

/**
 * The edited block, if it has the intended meaning; otherwise the one that the library writes, which keeps meaning but
 * not spelling. If neither has it, nothing is changed.
 */
function confirmed(edited: string, expected: Fields, edit: () => void, document: Document): string {
  if (saysExactly(edited, expected)) return edited
  try {
    edit()
    const written = document.contents === null ? '' : document.toString({ lineWidth: 0 })
    if (saysExactly(written, expected)) return written
  } catch {
    // What the library cannot write either is refused below.
  }
  throw frontmatterBroken('it is written in a way that cannot be edited, such as with anchors or several documents')
}

function saysExactly(yaml: string, expected: Fields): boolean {
  if (/(?:^|\n)---[ \t]*(?:\r?\n|$)/.test(yaml)) return false
  const read = readYaml(yaml)
  return 'fields' in read && JSON.stringify(read.fields) === JSON.stringify(expected)
}
