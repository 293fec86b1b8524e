import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { endOfJsonString } from '../../kernel/json-bounds.ts'

/**
 * JSON that every parser reads in the same way. Two programs must derive the same bytes before one can verify the
 * other's signature. So everything that parsers interpret differently is refused: a duplicate key, half a surrogate
 * pair, a number that ECMAScript would write differently or that a double cannot hold, deep nesting.
 */
export function parseStrictJson(text: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new AppError('ERR_INVALID_INPUT', 'The body is not valid JSON.', { field: 'body' }, { cause })
  }
  scan(text)
  return value
}

const NUMBER = /-?[0-9][0-9.eE+-]*/y
const DEPTH_MAX = limits.argumentDepthMax + 8

/** Text that is known to be JSON, token by token. */
function scan(text: string): void {
  /** The keys of each open object; undefined for a list. */
  const open: (Set<string> | undefined)[] = []
  let isKeyNext = false
  for (let at = 0; at < text.length; at++) {
    const start = at
    const char = text[at]!
    if (char === '"') {
      at = endOfJsonString(text, at)
      const content = textOf(text.slice(start, at + 1), start)
      if (!isKeyNext) continue
      const keys = open.at(-1)!
      if (keys.has(content)) throw refused(start, 'a key occurs twice')
      keys.add(content)
      isKeyNext = false
    } else if (char === '{' || char === '[') {
      if (open.length >= DEPTH_MAX) throw refused(start, `it is nested more than ${DEPTH_MAX} levels deep`)
      open.push(char === '{' ? new Set() : undefined)
      isKeyNext = char === '{'
    } else if (char === '}' || char === ']') {
      open.pop()
      isKeyNext = false
    } else if (char === ',') isKeyNext = open.at(-1) !== undefined
    else if (char === '-' || (char >= '0' && char <= '9')) {
      NUMBER.lastIndex = at
      const token = NUMBER.exec(text)![0]
      requireExact(token, at)
      at += token.length - 1
    }
  }
}

function textOf(token: string, position: number): string {
  const content = token.includes('\\') ? (JSON.parse(token) as string) : token.slice(1, -1)
  if (!content.isWellFormed()) throw refused(position, 'a string has half a character (a lone surrogate)')
  return content
}

function requireExact(token: string, position: number): void {
  const value = Number(token)
  if (JSON.stringify(value) !== token) throw refused(position, 'a number is not written as ECMAScript writes it')
  if (Number.isInteger(value) && !token.includes('e') && !Number.isSafeInteger(value)) {
    throw refused(
      position,
      'an integer is larger than 2^53 - 1, so readers could disagree about it; send it as a string',
    )
  }
}

const refused = (position: number, what: string): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `The body cannot be checked against a signature: ${what}, at position ${position}.`,
    {
      field: 'body',
      position,
    },
  )
