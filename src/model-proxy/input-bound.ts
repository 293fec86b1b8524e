import { formats } from './judging/create-judging.ts'
import type { PricedProvider } from './ports.ts'
import { type Fields, fieldsOf, type Operation, textOf } from './protocols/protocol.ts'

/** The most input that a request can be billed for. */
export type InputBound = Readonly<{
  /** Of what the request contains. */
  tokens: number
  /** Of its images, which are in `tokens` too. */
  imageTokens: number
  /** Of its audio, likewise. */
  audioTokens: number
  /** The provider adds input that is not in the request, or its size cannot be told from the request. */
  isUnseen: boolean
}>

type Request = Readonly<{
  operation: Operation
  model: string
  bytes: Buffer | undefined
  body: Fields | undefined
}>

/**
 * Bounds the input of a request without counting its tokens, which only the provider can do. Text counts by its bytes, images by what
 * the provider takes at most for one, and audio by its length. A document has no bound by its size: it is compressed, and its pages
 * count as images too.
 */
export function inputBound(
  { operation, model, bytes, body }: Request,
  { isPublic, protocol }: Pick<PricedProvider, 'isPublic' | 'protocol'>,
): InputBound {
  const found: Found = { images: 0, mediaTenths: 0, audioTokens: 0, numbers: 0, isUnseen: false }
  const takesImagesOnly = isPublic && protocol.name !== 'gemini'
  if (body !== undefined) lookAt(body, operation, found, takesImagesOnly)
  const textTokens = Math.ceil(Math.max(0, tenthsIn(bytes) - found.mediaTenths) / 10)
  const imageTokens = found.images * imageTokensMax(isPublic, protocol.name, model)
  const tokens = Math.max(textTokens, found.numbers) + imageTokens + found.audioTokens
  return { tokens, imageTokens, audioTokens: found.audioTokens, isUnseen: found.isUnseen }
}

/** What the parts of a request contain. `mediaTenths` is what their base64 would count for as text. */
type Found = { images: number; mediaTenths: number; audioTokens: number; numbers: number; isUnseen: boolean }

/** Where requests have their content, in all formats. */
const contentMembers = [
  'messages',
  'input',
  'contents',
  'system',
  'instructions',
  'systemInstruction',
  'system_instruction',
  'content',
  'requests',
] as const
/** Members that name what the provider has stored: histories, templates and caches. */
const storedMembers = [
  'previous_response_id',
  'conversation',
  'prompt',
  'cachedContent',
  'cached_content',
  'container',
] as const

function lookAt(body: Fields, operation: Operation, found: Found, takesImagesOnly: boolean): void {
  found.isUnseen = storedMembers.some((name) => isSaid(body[name])) || runsTools(operation, body)
  for (const name of contentMembers) if (!found.isUnseen) look(body[name], name, found, takesImagesOnly, 1)
}

/** What tools of the provider return is input too. */
const runsTools = (operation: Operation, body: Fields): boolean =>
  (formats[operation]?.providerTools(body).length ?? 0) > 0

/** Deeper than any provider's content. */
const DEPTH_MAX = 12
/** Texts of a model or a program, in which a name says nothing: arguments and results of tools, and quotations. */
const freeMembers: ReadonlySet<string> = new Set([
  'input',
  'args',
  'arguments',
  'response',
  'action',
  'actions',
  'operation',
  'annotations',
  'citations',
  'cache_control',
])
const REFERENCE = /(?:url|uri)$|^file_?id$/i

function look(value: unknown, name: string, found: Found, takesImagesOnly: boolean, depth: number): void {
  if (typeof value === 'number') found.numbers++
  const fields = fieldsOf(value)
  if (fields === undefined || depth > DEPTH_MAX || found.isUnseen) return
  if (Array.isArray(fields)) {
    for (const item of fields) look(item, name, found, takesImagesOnly, depth + 1)
    return
  }
  if (isReference(fields, name, depth)) {
    found.isUnseen = true
    return
  }
  const media = mediaOf(fields, name)
  if (media !== undefined) {
    count(media, found, takesImagesOnly)
    return
  }
  for (const member in fields) {
    if (freeMembers.has(member)) continue
    const inner = fields[member]
    if (typeof inner === 'string') {
      if (inner !== '' && REFERENCE.test(member) && !inner.startsWith('data:')) found.isUnseen = true
    } else look(inner, member, found, takesImagesOnly, depth + 1)
  }
}

/** An item that the provider has, and that the request does not repeat. */
function isReference({ type, role, id, encrypted_content: encrypted }: Fields, name: string, depth: number): boolean {
  if (type === 'item_reference' || type === 'compaction') return true
  if (type === 'reasoning') return isSaid(id) && !isSaid(encrypted)
  // A list of items is two deep. The audio of an earlier answer is named by its id.
  return (
    isSaid(id) && type === undefined && role === undefined && ((name === 'input' && depth === 2) || name === 'audio')
  )
}

/** What is not text. `data` is inline, as base64 or a `data:` URL; undefined if the provider gets it from elsewhere. */
type Media = Readonly<{ kind: 'image' | 'audio' | 'text' | 'other'; data: string | undefined }>

const imageTypes: ReadonlySet<unknown> = new Set([
  'image_url',
  'input_image',
  'image',
  'computer_screenshot',
  'image_generation_call',
])

function mediaOf(part: Fields, name: string): Media | undefined {
  const { type, source } = part
  if (name === 'inlineData' || name === 'inline_data') {
    return { kind: kindOf(part['mimeType'] ?? part['mime_type']), data: textOf(part['data']) ?? '' }
  }
  if (imageTypes.has(type)) {
    const named = part['image_url']
    const url = textOf(named) ?? textOf(fieldsOf(named)?.['url']) ?? textOf(part['url'])
    const inline = textOf(fieldsOf(source)?.['data']) ?? textOf(part['result'])
    if (url?.startsWith('data:') === true) return { kind: kindOf(url.slice('data:'.length)), data: url }
    return { kind: 'image', data: inline }
  }
  if (type === 'input_audio') return { kind: 'audio', data: textOf(fieldsOf(part['input_audio'])?.['data']) ?? '' }
  if (type === 'input_file' || type === 'file') return { kind: 'other', data: undefined }
  if (type === 'document' && fieldsOf(source)?.['type'] === 'base64') return { kind: 'other', data: undefined }
  return undefined
}

function kindOf(mimeType: unknown): Media['kind'] {
  const said = textOf(mimeType)?.toLowerCase() ?? ''
  if (said.startsWith('image/')) return 'image'
  if (said.startsWith('audio/')) return 'audio'
  return said.startsWith('text/') ? 'text' : 'other'
}

function count({ kind, data }: Media, found: Found, takesImagesOnly: boolean): void {
  // A compatible server may take whatever is at an address for an image: a film, or a document.
  if (kind === 'other' || (data === undefined && !takesImagesOnly)) found.isUnseen = true
  else if (kind === 'image') found.images++
  else if (kind === 'audio') found.audioTokens += Math.ceil((data?.length ?? 0) / AUDIO_BYTES_PER_TOKEN)
  if (data !== undefined && (kind === 'image' || kind === 'audio')) found.mediaTenths += tenthsOf(data)
}

/** Providers count 10 to 32 tokens for a second, and speech in base64 has at least 600 bytes in a second. */
const AUDIO_BYTES_PER_TOKEN = 16

/** The most that a provider counts for one image, however large: it scales a larger one down. */
function imageTokensMax(isPublic: boolean, protocol: PricedProvider['protocol']['name'], model: string): number {
  if (!isPublic) return IMAGE_TOKENS
  if (protocol === 'anthropic') return 5_000
  if (protocol === 'gemini') return 4_500
  if (BILLED_MORE.test(model)) return 49_000
  return TILED.test(model) ? 4_000 : IMAGE_TOKENS
}
const IMAGE_TOKENS = 20_000
/** Images cost as much as with the large model, at a smaller price for each token. */
const BILLED_MORE = /(?:^|\/)gpt-4o-mini/i
const TILED = /(?:^|\/)(?:gpt-4|chatgpt-4|o[134])/i

/** Whether the images of a model may be billed beyond its context. */
export const billsImagesApart = (model: string): boolean => BILLED_MORE.test(model)

/**
 * In tenths of a token, by byte. Words take fewer tokens than this; digits can take one each, and so can the bytes of characters that
 * are rare in a tokenizer's texts.
 */
const tenths = Uint8Array.from({ length: 256 }, (_, byte) => {
  if (byte >= 0x80 || (byte >= 0x30 && byte <= 0x39)) return 10
  const isWord = (byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x7a
  return isWord || byte <= 0x20 ? 4 : 6
})

function tenthsIn(bytes: Buffer | undefined): number {
  if (bytes === undefined) return 0
  let sum = 0
  for (let at = 0; at < bytes.length; at++) sum += tenths[bytes[at]!]!
  return sum
}

/** Of base64, which is ASCII; anything else is no image, and counts for nothing here. */
function tenthsOf(text: string): number {
  let sum = 0
  for (let at = 0; at < text.length; at++) sum += tenths[text.charCodeAt(at)] ?? 0
  return sum
}

const isSaid = (value: unknown): boolean => value !== undefined && value !== null && value !== ''
