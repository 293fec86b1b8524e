import { readFile } from 'node:fs/promises'
import type { LineCounter, Node } from 'yaml'
import { AppError } from '../contract/app-error.ts'

const FILE_BYTES_MAX = 1024 * 1024

type Position = Readonly<{ line: number; column: number }>

/** A problem with one value, and its position. */
export type ConfigProblem = Readonly<{
  /** The file, the environment variable or the flag that holds the value. */
  origin: string
  position?: Position
  /** Dotted path; empty for the file as a whole. */
  field: string
  rule: string
  nearest?: string
}>

export type ConfigFile = Readonly<{
  path: string
  values: Record<string, unknown>
  problems: readonly ConfigProblem[]
  /** The position of the value at these keys, or of the nearest enclosing one in the file. */
  positionOf(keys: readonly PropertyKey[]): Position
  /** The position of a member's name. */
  positionOfKey(keys: readonly PropertyKey[], name: string): Position
}>

async function readBounded(path: string): Promise<string> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unknown error'
    throw new AppError(
      'ERR_CONFIG_INVALID',
      `The configuration file ${path} cannot be read (${reason}). Correct the path or the permissions.`,
      { file: path, reason },
    )
  }
  if (text.length > FILE_BYTES_MAX) {
    throw new AppError(
      'ERR_CONFIG_INVALID',
      `The configuration file ${path} has more than ${FILE_BYTES_MAX} characters. Make it smaller.`,
      {
        file: path,
      },
    )
  }
  return text
}

/** Parses YAML so that every later problem can be shown at its line. Syntax problems are returned, not thrown. */
export async function readConfigFile(path: string): Promise<ConfigFile> {
  const text = await readBounded(path)
  const yaml = await import('yaml')
  const lineCounter: LineCounter = new yaml.LineCounter()
  const document = yaml.parseDocument(text, { lineCounter, prettyErrors: false })
  const at = (offset: number): Position => {
    const { line, col } = lineCounter.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1) }
  }
  const problems: ConfigProblem[] = document.errors.map((error) => ({
    origin: path,
    position: at(error.pos[0]),
    field: '',
    rule:
      error.code === 'MULTIPLE_DOCS'
        ? 'must contain one YAML document. Remove "---"'
        : `is not valid YAML: ${error.message}`,
  }))

  let values: Record<string, unknown> = {}
  if (problems.length === 0) {
    let content: unknown
    try {
      content = document.toJS({ maxAliasCount: 100 })
    } catch {
      problems.push({ origin: path, field: '', rule: 'has too many YAML aliases, or an alias without an anchor' })
    }
    if (typeof content === 'object' && content !== null && !Array.isArray(content)) {
      values = content as Record<string, unknown>
    } else if (content !== null && content !== undefined) {
      problems.push({
        origin: path,
        position: at(0),
        field: '',
        rule: 'must be a YAML mapping of field names to values',
      })
    }
  }

  const startOf = (node: unknown): number | undefined => (node as Node | undefined)?.range?.[0]
  const positionOf = (keys: readonly PropertyKey[]): Position => {
    for (let length = keys.length; length > 0; length--) {
      const start = startOf(document.getIn(keys.slice(0, length), true))
      if (start !== undefined) return at(start)
    }
    return at(0)
  }
  return {
    path,
    values,
    problems,
    positionOf,
    positionOfKey: (keys, name) => {
      const map = keys.length === 0 ? document.contents : document.getIn(keys, true)
      if (yaml.isMap(map)) {
        for (const pair of map.items) {
          const start = yaml.isScalar(pair.key) && pair.key.value === name ? startOf(pair.key) : undefined
          if (start !== undefined) return at(start)
        }
      }
      return positionOf(keys)
    },
  }
}
