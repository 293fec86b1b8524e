import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import { exceededBound } from '../kernel/json-bounds.ts'
import { requireUnambiguous } from './ambiguous-members.ts'
import { type AnswerFormat, type Endpoint, fieldsOf, textOf } from './protocols/protocol.ts'

/** A request as the upstream gets it, and the members that matter here. It is parsed once. */
export type PreparedRequest = Readonly<{
  bytes: Buffer | undefined
  model: string | null
  isStream: boolean
  /** We requested the usage of a stream, and the caller did not. */
  hidesUsage: boolean
  body: Readonly<Record<string, unknown>> | undefined
}>

const NO_BODY: PreparedRequest = { bytes: undefined, model: null, isStream: false, hidesUsage: false, body: undefined }

export function prepareRequest(
  received: Buffer,
  endpoint: Endpoint,
  format: AnswerFormat | undefined,
): PreparedRequest {
  if (endpoint.method === 'GET') return NO_BODY
  const body = parsed(received)
  const model = endpoint.model ?? textOf(body['model']) ?? null
  if (model !== null && PADDED.test(model)) throw padded()
  const isStream = endpoint.isStream ?? body['stream'] === true
  const plain = { bytes: received, model, isStream, hidesUsage: false, body }
  if (!isStream || format?.asksForUsage !== true) return plain
  const options = fieldsOf(body['stream_options'])
  if (options?.['include_usage'] === true) return plain
  return { ...plain, bytes: askingForUsage(received, body), hidesUsage: true }
}

/** Providers may remove these, and rules for the model would not know it. */
const PADDED = /^\s|\s$|\p{Cc}/u
const padded = (): AppError =>
  new AppError('ERR_INVALID_INPUT', 'model: must not begin or end with a space, nor contain control characters.', {
    field: 'model',
  })

const MEMBER = Buffer.from('"stream_options":{"include_usage":true},')

/** The caller's bytes stay unchanged, unless the member is present already. */
function askingForUsage(received: Buffer, body: Readonly<Record<string, unknown>>): Buffer {
  if ('stream_options' in body) {
    const options = { ...fieldsOf(body['stream_options']), include_usage: true }
    return Buffer.from(JSON.stringify({ ...body, stream_options: options }))
  }
  const inside = received.indexOf('{') + 1
  return Buffer.concat([received.subarray(0, inside), MEMBER, received.subarray(inside)])
}

function parsed(bytes: Buffer): Readonly<Record<string, unknown>> {
  let body: unknown
  let text: string
  try {
    text = decoder.decode(bytes)
    const exceeded = exceededBound(text, bounds)
    if (exceeded !== undefined) throw tooMuch(exceeded)
    body = JSON.parse(text)
  } catch (error) {
    if (error instanceof AppError) throw error
    throw new AppError('ERR_INVALID_INPUT', 'The body is not valid JSON in UTF-8. Send it uncompressed.', {
      field: 'body',
    })
  }
  const fields = Array.isArray(body) ? undefined : fieldsOf(body)
  if (fields === undefined)
    throw new AppError('ERR_INVALID_INPUT', 'The body must be a JSON object.', { field: 'body' })
  requireUnambiguous(text)
  return fields
}

const decoder = new TextDecoder('utf-8', { fatal: true })
const bounds = {
  depthMax: limits.modelRequestDepthMax,
  valuesMax: limits.modelRequestValuesMax,
  membersMax: limits.modelRequestMembersMax,
}
const rules = {
  depth: `be nested at most ${bounds.depthMax} deep`,
  values: `have at most ${bounds.valuesMax} values`,
  members: `have at most ${bounds.membersMax} members in all its objects`,
}
const tooMuch = (exceeded: keyof typeof rules): AppError =>
  new AppError('ERR_TOO_LARGE', `The body must ${rules[exceeded]}. Send a shorter conversation.`, { field: 'body' })
