import { limits } from '../contract/limits.ts'
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
  /** The answer is a stream, or would have been one. */
  isStreamed: boolean
  /** Since it was sent, until it ended. */
  sentForMs: number
  /** Undefined if the answer is not a stream, or has not started. */
  tap: Readonly<{ passedTokens: number; reportedOutput: ReportedOutput | undefined }> | undefined
  /** Of an answer that is not a stream. */
  textBytes(): number
  /** The provider continues to write, and bills that, after the connection has ended. */
  isUnfinished?: boolean
  /** Undefined if it was not computed. */
  bounds: OutputBounds | undefined
}>

/** What a request can be billed for, as far as it is known before its answer. */
export type OutputBounds = Readonly<{
  /** The most of all. */
  most(): Tokens
  /** The most output; undefined if nothing bounds it. An embedding has none. */
  outputMax(): number | undefined
  /** The provider may bill more output than it shows. */
  mayReason: boolean
  /** How many it writes at the same time. */
  answers: number
}>

/** What a stream has reported, and the estimate of what it wrote after that. */
export type ReportedOutput = Readonly<{ reported: number; since: number }>

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

/** The estimated bill of a provider that does not report it: what passed, or what it may have written unseen; at most what was reserved. */
function estimatedTokens(known: Ended): Tokens {
  const { said, tap, bounds } = known
  const most = said?.input === undefined ? (bounds?.most() ?? NO_TOKENS) : undefined
  const read = { ...NO_TOKENS, ...most, ...said, input: said?.input ?? most!.input }
  const outputMax = bounds?.outputMax() ?? Number.POSITIVE_INFINITY
  const reportedOutput = tap?.reportedOutput
  if (reportedOutput !== undefined) {
    const { reported, since } = reportedOutput
    return { ...read, output: Math.max(reported, Math.min(reported + since, outputMax)) }
  }
  const passed = Math.max(Math.min(tap?.passedTokens ?? tokensIn(known.textBytes()), outputMax), said?.output ?? 0)
  const unseen = writtenUnseen(known)
  if (unseen === 0) return { ...read, output: passed }
  const { kinds = {} } = bounds?.most() ?? NO_TOKENS
  const written = Object.fromEntries(Object.entries(kinds).filter(([kind]) => kind.startsWith('output')))
  return { ...read, output: Math.max(passed, unseen), kinds: { ...read.kinds, ...written } }
}

/**
 * How much a provider can have written at most, in all, if not all of it was seen. A client that disconnects early must not pay less than one
 * that stays, nor for what nobody can have written in the time.
 */
function writtenUnseen({ ending, isStreamed, isUnfinished, sentForMs, bounds }: Ended): number {
  const most = bounds?.most().output ?? 0
  if (isUnfinished === true) return most
  if (ending === 'complete') return 0
  // A stream shows its text while it is written. Another answer is written before it is sent, also if nobody waits for it any more.
  if (!isStreamed && ending === 'left') return most
  if (isStreamed && bounds?.mayReason !== true) return 0
  const inTime = Math.ceil((sentForMs / 1_000) * limits.modelOutputTokensPerSecondMax) * (bounds?.answers ?? 1)
  return Math.min(inTime, most)
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
