import type { Tokens } from './ports.ts'
import { fieldsOf, type PartialTokens, type Protocol } from './protocols/protocol.ts'

/** Fewer than in most texts, so that an estimate is rather too high. */
const BYTES_PER_TOKEN = 3

export const tokensIn = (bytes: number): number => Math.ceil(bytes / BYTES_PER_TOKEN)

export const NO_TOKENS: Tokens = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0 }

export const completeTokens = (said: PartialTokens | undefined): Tokens | undefined =>
  said === undefined ? undefined : { ...NO_TOKENS, ...said, input: said.input ?? 0, output: said.output ?? 0 }

/** A request whose provider did not report all of its numbers. */
type Unsaid = Readonly<{
  said: PartialTokens | undefined
  /** Undefined if the answer is not a stream, or has not started. */
  tap: Readonly<{ passedTokens: number; saidOutput: number | undefined }> | undefined
  answerBytes: number
  /** The provider continues to write, and bills that, after the connection has ended. */
  isUnfinished?: boolean
  /** We disconnected before the answer was complete, and the provider may have written what we did not see. */
  hasLeft: boolean
  /** The most that the request can be billed for; undefined if it was not computed. */
  most: (() => Tokens) | undefined
  mayReason: boolean
}>

/**
 * The estimated bill of a provider that does not report it: what passed. A client that disconnects early must not pay less than
 * one that stays, so the whole reservation counts if the provider may have written more than passed.
 */
export function estimatedTokens(known: Unsaid): Tokens {
  const { said, tap } = known
  const most = said?.input === undefined ? (known.most?.() ?? NO_TOKENS) : undefined
  const read = { ...NO_TOKENS, ...most, ...said, input: said?.input ?? most!.input }
  if (tap?.saidOutput !== undefined) return { ...read, output: tap.saidOutput }
  const passed = Math.max(tap?.passedTokens ?? tokensIn(known.answerBytes), said?.output ?? 0)
  const isUnseen = known.isUnfinished === true || (known.hasLeft && (tap === undefined || known.mayReason))
  if (!isUnseen) return { ...read, output: passed }
  const { output, kinds = {} } = known.most?.() ?? NO_TOKENS
  const written = Object.fromEntries(Object.entries(kinds).filter(([kind]) => kind.startsWith('output')))
  return { ...read, output: Math.max(passed, output), kinds: { ...read.kinds, ...written } }
}

/** Models of OpenAI and Google that do not reason. Anthropic's reason only on request. */
const PLAIN = /^(?:gpt-[34]|chatgpt-4|gemini-(?:1|2\.0)|text-|gemma)/i
/** The same models under the names of other providers. */
const REASONING = /(?:^|[/.:])(?:o[1-9]|gpt-[5-9]|codex|gemini-(?:2\.5|[3-9]|pro|flash))/i

type ModelFacts = Readonly<{ protocol: Protocol['name']; isPublic: boolean; model: string }>

/**
 * Whether a provider may bill reasoning that it does not show, or only summarises. A request cannot opt out: not every model
 * obeys.
 */
export const mayReason = (
  { protocol, isPublic, model }: ModelFacts,
  body: Readonly<Record<string, unknown>> | undefined,
): boolean =>
  asksForReasoning(body) || (protocol !== 'anthropic' && (REASONING.test(model) || (isPublic && !PLAIN.test(model))))

/** In any of the formats: it can only make an estimate higher. */
function asksForReasoning(body: Readonly<Record<string, unknown>> | undefined): boolean {
  if (body === undefined) return false
  const { thinking, reasoning_effort: effort, reasoning } = body
  if (isSaid(effort) || isSaid(reasoning)) return true
  if (isSaid(thinking) && fieldsOf(thinking)?.['type'] !== 'disabled') return true
  return thinksBy(body['generationConfig']) || thinksBy(body['generation_config'])
}

function thinksBy(config: unknown): boolean {
  const fields = fieldsOf(config)
  return fields !== undefined && (isSaid(fields['thinkingConfig']) || isSaid(fields['thinking_config']))
}

const isSaid = (value: unknown): boolean => value !== undefined && value !== null
