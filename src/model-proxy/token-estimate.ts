import type { Tokens } from './ports.ts'
import { fieldsOf, type PartialTokens, type Protocol } from './protocols/protocol.ts'

/** Fewer than most texts have, so that an estimate is rather too high. */
const BYTES_PER_TOKEN = 3

export const tokensIn = (bytes: number): number => Math.ceil(bytes / BYTES_PER_TOKEN)

export const NO_TOKENS: Tokens = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0 }

/** What is known of a request whose provider did not say all of its numbers. */
type Unsaid = Readonly<{
  said: PartialTokens | undefined
  /** Undefined where the answer is no stream, or has not begun. */
  tap: Readonly<{ passedTokens: number; hasSaidOutput: boolean }> | undefined
  requestBytes: number
  answerBytes: number
  /** We left before the answer was complete, and the provider may have written what we did not see. */
  hasLeft: boolean
  /** What was reserved. */
  most: Pick<Tokens, 'output'> | undefined
  mayReason: boolean
}>

/**
 * What a provider bills if it does not say so: what passed. Who leaves before it said so must not pay less than who stays, so that all
 * that was reserved counts where the provider may have written more than passed.
 */
export function estimatedTokens(known: Unsaid): Tokens {
  const { said, tap } = known
  const input = said?.input ?? tokensIn(known.requestBytes)
  if (tap?.hasSaidOutput === true) return { ...NO_TOKENS, ...said, input }
  const passed = Math.max(tap?.passedTokens ?? tokensIn(known.answerBytes), said?.output ?? 0)
  const isUnseen = known.hasLeft && (tap === undefined || known.mayReason)
  return { ...NO_TOKENS, ...said, input, output: isUnseen ? Math.max(passed, known.most?.output ?? 0) : passed }
}

/** Of OpenAI and Google, those that do not reason. Anthropic's reason only if they are asked to. */
const PLAIN = /^(?:gpt-[34]|chatgpt-4|gemini-(?:1|2\.0)|text-|gemma)/i
/** The same models under the names of other providers. */
const REASONING = /(?:^|[/.:])(?:o[1-9]|gpt-[5-9]|codex|gemini-(?:2\.5|[3-9]|pro|flash))/i

type Asked = Readonly<{ protocol: Protocol['name']; isPublic: boolean; model: string }>

/**
 * Whether a provider may bill thoughts that it does not show, or of which it shows a summary. What a request says against that is not
 * believed: not every model obeys.
 */
export const mayReason = (
  { protocol, isPublic, model }: Asked,
  body: Readonly<Record<string, unknown>> | undefined,
): boolean =>
  asksForReasoning(body) || (protocol !== 'anthropic' && (REASONING.test(model) || (isPublic && !PLAIN.test(model))))

/** In any of the formats: it can only make an estimate higher. */
function asksForReasoning(body: Readonly<Record<string, unknown>> | undefined): boolean {
  if (body === undefined) return false
  const { thinking, reasoning_effort: effort, reasoning } = body
  const config = fieldsOf(body['generationConfig'] ?? body['generation_config'])
  const found = [thinking, effort, reasoning, config?.['thinkingConfig'], config?.['thinking_config']]
  return found.some((asked) => asked !== undefined && asked !== null && fieldsOf(asked)?.['type'] !== 'disabled')
}
