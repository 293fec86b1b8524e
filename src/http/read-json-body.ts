import type { IncomingMessage } from 'node:http'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import { exceededBound } from '../kernel/json-bounds.ts'
import { readBody } from './exchange/read-body.ts'
import { findJsonError } from './find-json-error.ts'

/** The body of a request as JSON; no body is an empty object. Errors say what is wrong, and where. */
export async function readJsonBody(req: IncomingMessage, bytesMax: number): Promise<unknown> {
  const text = await readJsonText(req, bytesMax)
  return text === '' ? {} : parseJson(text)
}

/** The same before parsing; no body is the empty string. */
export async function readJsonText(req: IncomingMessage, bytesMax: number): Promise<string> {
  const type = req.headers['content-type']
  if (type !== undefined) requireJsonType(type)
  const encoding = req.headers['content-encoding'] ?? 'identity'
  if (encoding.toLowerCase() !== 'identity') throw unsupported('Content-Encoding: send the body uncompressed.')
  const bytes = await readBytes(req, bytesMax)
  if (bytes.length === 0) return ''
  if (type === undefined) throw unsupported('Content-Type: must be application/json.')
  const text = decodeUtf8(bytes)
  requireBounds(text)
  return text
}

/** Refuses before the body is read, if the client declares its length. */
export function requireBodyLength(req: IncomingMessage, bytesMax: number): void {
  if (Number(req.headers['content-length']) > bytesMax) throw tooLarge(bytesMax)
}

function requireJsonType(type: string): void {
  const match = /^application\/json *(?:; *charset *= *"?([a-z0-9-]+)"? *)?$/i.exec(type.trim())
  if (match === null) throw unsupported('Content-Type: must be application/json.')
  const charset = match[1]?.toLowerCase() ?? 'utf-8'
  if (charset !== 'utf-8' && charset !== 'utf8') throw unsupported('Content-Type: the charset must be utf-8.')
}

export function readBytes(req: IncomingMessage, bytesMax: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    readBody(req, bytesMax, (body) => {
      if (body === 'too-large') reject(tooLarge(bytesMax))
      else if (body === 'disconnected') {
        reject(new AppError('ERR_CANCELLED', 'The client disconnected before the body was complete.'))
      } else resolve(body)
    })
  })
}

function decodeUtf8(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new AppError('ERR_INVALID_INPUT', 'The body is not valid UTF-8.', { field: 'body', constraint: 'UTF-8' })
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    const position = findJsonError(text) ?? text.length
    const before = text.slice(0, position)
    const line = before.split('\n').length
    const column = position - before.lastIndexOf('\n')
    const what = position === text.length ? 'unexpected end' : 'unexpected character'
    throw new AppError(
      'ERR_INVALID_INPUT',
      `The body is not valid JSON: ${what} at line ${line}, column ${column} (position ${position}).`,
      { field: 'body', constraint: 'JSON', position, line, column },
    )
  }
}

/** Refuses before parsing: parsing a body of brackets would block every other request. */
function requireBounds(text: string): void {
  const { messageDepthMax: depthMax, messageValuesMax: valuesMax, messageMembersMax: membersMax } = limits
  const exceeded = exceededBound(text, { depthMax, valuesMax, membersMax })
  if (exceeded === 'depth') {
    const constraint = `at most ${depthMax} levels`
    throw new AppError('ERR_INVALID_INPUT', `The body is nested too deeply: ${constraint}.`, {
      field: 'body',
      constraint,
    })
  }
  if (exceeded === 'values') {
    const message = `The body has too many values: at most ${valuesMax}.`
    throw new AppError('ERR_TOO_LARGE', message, { field: 'body', values_max: valuesMax })
  }
  if (exceeded === 'members') {
    const message = `The objects of the body have too many members: at most ${membersMax} together.`
    throw new AppError('ERR_TOO_LARGE', message, { field: 'body', members_max: membersMax })
  }
}

const unsupported = (message: string): AppError => new AppError('ERR_MEDIA_TYPE_UNSUPPORTED', message)
const tooLarge = (bytesMax: number): AppError =>
  new AppError('ERR_TOO_LARGE', `The body is larger than ${bytesMax} bytes.`, { bytes_max: bytesMax })
