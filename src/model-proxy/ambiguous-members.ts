import { AppError } from '../contract/app-error.ts'
import { endOfJsonString } from '../kernel/json-bounds.ts'

/**
 * Members of a request that decide something here: who may ask for it, what it may cost, or what is judged. Gemini takes those of
 * several words in both spellings.
 */
const members = [
  'cachedContent',
  'cached_content',
  'contents',
  'conversation',
  'functions',
  'generationConfig',
  'generation_config',
  'input',
  'max_completion_tokens',
  'max_output_tokens',
  'max_tokens',
  'mcp_servers',
  'messages',
  'metadata',
  'model',
  'n',
  'previous_response_id',
  'prompt',
  'store',
  'stream',
  'stream_options',
  'tools',
  'web_search_options',
] as const

/** As the most lenient parser compares names; that of Go takes a long s for an s. */
const comparable = (name: string): string => name.toUpperCase().toLowerCase().replaceAll('_', '')

const spellings: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  members.map((name) => [comparable(name), new Set(members.filter((other) => comparable(other) === comparable(name)))]),
)

/**
 * A body goes on as its bytes, so what it says must be the same for everybody who reads it. Refuses a member that is there twice, or that
 * differs from one of these in case alone. The text is a JSON object.
 */
export function requireUnambiguous(text: string): void {
  const seen = new Set<string>()
  for (const name of memberNames(text)) {
    const key = comparable(name)
    const allowed = spellings.get(key)
    if (allowed === undefined) continue
    if (!allowed.has(name)) throw misspelt(name, [...allowed])
    if (seen.has(key)) throw repeated(name)
    seen.add(key)
  }
}

const [QUOTE, COMMA] = [0x22, 0x2c]
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]

/** Of the outermost object, with those that a parser drops because they come again. */
function memberNames(text: string): readonly string[] {
  const names: string[] = []
  let depth = 0
  let isName = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      const end = endOfJsonString(text, at)
      if (isName) names.push(nameIn(text.slice(at, end + 1)))
      isName = false
      at = end
    } else if (code === OPEN_OBJECT || code === OPEN_LIST) isName = ++depth === 1
    else if (code === CLOSE_OBJECT || code === CLOSE_LIST) depth--
    else if (code === COMMA && depth === 1) isName = true
  }
  return names
}

const nameIn = (quoted: string): string =>
  quoted.includes('\\') ? (JSON.parse(quoted) as string) : quoted.slice(1, -1)

const misspelt = (name: string, allowed: readonly string[]): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `The body has '${name.slice(0, 64)}', which some read as '${allowed[0]!}'. Write it so.`,
    {
      field: allowed[0]!,
    },
  )

const repeated = (name: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `The body has '${name}' twice. Send it once.`, { field: name })
