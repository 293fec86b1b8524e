import type { Tokens } from './ports.ts'
import { fieldsOf, type PartialTokens, type Protocol } from './protocols/protocol.ts'

/** Fewer than in most texts, so that an estimate is rather too high. */
const BYTES_PER_TOKEN = 3

export const tokensIn = (bytes: number): number => Math.ceil(bytes / BYTES_PER_TOKEN)

export const NO_TOKENS: Tokens = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0 }

export const completeTokens = (said: PartialTokens | undefined): Tokens | undefined =>
  said === undefined ? undefined : { ...NO_TOKENS, ...said, input: said.input ?? 0, output: said.output ?? 0 }

/** How a request to a model ended, and what is known of its tokens. */
type Ended = Readonly<{
  /** Whether a part of it may have reached the provider. */
  wasSent: boolean
  /** Of the provider; 0 if it did not answer. */
  httpStatus: number
  /** `broken`: the provider, or the network, ended it before it was complete. `left`: we did. */
  ending: 'complete' | 'broken' | 'left'
  said: PartialTokens | undefined
  /** Undefined if the answer is not a stream, or has not started. */
  tap: Readonly<{ passedTokens: number; saidOutput: number | undefined }> | undefined
  answerBytes: number
  /** The provider continues to write, and bills that, after the connection has ended. */
  isUnfinished?: boolean
  /** The most that the request can be billed for; undefined if it was not computed. */
  most: (() => Tokens) | undefined
  mayReason: boolean
}>

/**
 * What a request counts for, of a program or an agent. Nobody knows what the provider does with a request that was sent, so it is free only if it
 * was not sent, or the provider refused it by its status. Undefined tokens cost nothing.
 */
export function billOf(ended: Ended): Readonly<{ tokens: Tokens | undefined; isEstimated: boolean }> {
  const { wasSent, httpStatus, ending, said } = ended
  // A stream's numbers before its end are incomplete.
  const isUnsaid = said?.output === undefined || said.input === undefined || ending !== 'complete'
  const isEstimated = wasSent && !isRefusal(httpStatus) && isUnsaid
  return { tokens: isEstimated ? estimatedTokens(ended) : completeTokens(said), isEstimated }
}

/** A client that followed a redirect would bypass this server and send its key along. */
export const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
export const isRefusal = (status: number): boolean => status >= 400 || redirects.has(status)

/**
 * The estimated bill of a provider that does not report it: what passed. A client that disconnects early must not pay less than
 * one that stays, so the whole reservation counts if the provider may have written more than passed.
 */
function estimatedTokens(known: Ended): Tokens {
  const { said, tap, ending } = known
  const most = said?.input === undefined ? (known.most?.() ?? NO_TOKENS) : undefined
  const read = { ...NO_TOKENS, ...most, ...said, input: said?.input ?? most!.input }
  if (tap?.saidOutput !== undefined) return { ...read, output: tap.saidOutput }
  const passed = Math.max(tap?.passedTokens ?? tokensIn(known.answerBytes), said?.output ?? 0)
  // An answer that is not a stream is written before it is sent.
  const isUnseen = tap === undefined ? ending !== 'complete' : ending === 'left' && known.mayReason
  if (known.isUnfinished !== true && !isUnseen) return { ...read, output: passed }
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
