/** How much of a page is searched for its declared encoding. */
const SNIFFED_BYTES = 2_048

const byteOrderMarks: readonly (readonly [bytes: readonly number[], label: string])[] = [
  [[0xef, 0xbb, 0xbf], 'utf-8'],
  [[0xfe, 0xff], 'utf-16be'],
  [[0xff, 0xfe], 'utf-16le'],
]

type MediaType = Readonly<{ name: string; charset: string | undefined }>

export function parseMediaType(header: string | undefined): MediaType | undefined {
  const [name = '', ...parameters] = (header ?? '').split(';').map((part) => part.trim())
  if (!/^[\w.+-]+\/[\w.+-]+$/.test(name)) return undefined
  const charset = parameters
    .map((parameter) => /^charset\s*=\s*"?([^"\s]+)"?$/i.exec(parameter)?.[1])
    .find((found) => found !== undefined)
  return { name: name.toLowerCase(), charset }
}

export const isHtml = (type: MediaType | undefined): boolean =>
  type?.name === 'text/html' || type?.name === 'application/xhtml+xml'

const TEXTUAL =
  /^(text\/.+|application\/(.+\+)?(json|xml|javascript|ecmascript|x-ndjson|yaml|x-yaml|x-www-form-urlencoded|toml|sql|graphql|x-sh)|image\/svg\+xml|message\/.+)$/

/** Undefined if it is not text. */
export function decodeBody(body: Buffer, type: MediaType | undefined): string | undefined {
  const isText =
    type === undefined || type.name === 'application/octet-stream' ? isPlain(body) : TEXTUAL.test(type.name)
  return isText ? decoderFor(body, type).decode(body) : undefined
}

/** If the server declares nothing, well-formed content without a zero byte is text. */
function isPlain(body: Buffer): boolean {
  if (body.includes(0)) return false
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(body)
    return true
  } catch {
    return false
  }
}

/** A byte order mark takes precedence over the header, and the header over the page. */
function decoderFor(body: Buffer, type: MediaType | undefined): InstanceType<typeof TextDecoder> {
  const mark = byteOrderMarks.find(([bytes]) => bytes.every((byte, at) => body[at] === byte))?.[1]
  const start = body.subarray(0, SNIFFED_BYTES).toString('latin1')
  const own =
    isHtml(type) || type?.name.endsWith('xml') === true
      ? /<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?([\w.:-]{1,40})/i.exec(start)?.[1]
      : undefined
  for (const label of [mark, type?.charset, own]) {
    if (label === undefined) continue
    try {
      return new TextDecoder(label)
    } catch {
      // The encoding is unknown; the next declaration counts.
    }
  }
  return new TextDecoder('utf-8')
}
