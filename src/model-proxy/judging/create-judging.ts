import type { IncomingHttpHeaders } from 'node:http'
import { AppError } from '../../contract/app-error.ts'
import type { Decision } from '../../contract/decision.ts'
import type { Principal } from '../../contract/principal.ts'
import type { InvocationVerdict } from '../../contract/tool-policies.ts'
import type { ContextKey } from '../../contract/trust.ts'
import { type Random, randomId } from '../../kernel/random.ts'
import { nextTurn } from '../../kernel/time-slicer.ts'
import type { Caller, ProxyFacts } from '../ports.ts'
import { type Operation, textOf } from '../protocols/protocol.ts'
import { IMAGE_CALL, type ImageRule, withoutDeniedImages } from './answer-images.ts'
import { chatFormat } from './chat-format.ts'
import { contextsOf } from './conversation.ts'
import { createAnswerJudge, whenKnown } from './events.ts'
import { generateFormat } from './generate-format.ts'
import { messagesFormat } from './messages-format.ts'
import { opaqueParts } from './opaque-parts.ts'
import { createPace, pacedJudge } from './paced-judge.ts'
import type {
  CallJudge,
  CallSubject,
  Fields,
  HistoryResult,
  Judged,
  JudgedFormat,
  JudgedRequest,
  ModelCall,
  MutableFields,
  ToolJudge,
} from './ports.ts'
import {
  type AnswerParts,
  createResponseChains,
  newAnswer,
  type ReferredAnswers,
  type ResponseLink,
} from './response-chains.ts'
import { responsesFormat } from './responses-format.ts'

type JudgingInput = Readonly<{
  caller: Caller
  proxy: ProxyFacts | undefined
  operation: Operation
  headers: IncomingHttpHeaders
  /** The body for the provider. Results that may not be shown are replaced in it. */
  body: Fields | undefined
  /** The size of the request. */
  bytes: number
  /** Aborted when the client disconnects. */
  signal(): AbortSignal
}>

export type Judging = Readonly<{
  /**
   * Undefined if there is nothing to judge. If a rule could refuse a call, every answer is judged, whatever the request offers:
   * providers parse leniently, and may have tools stored.
   */
  begin(input: JudgingInput): JudgedRequest | undefined | Promise<JudgedRequest | undefined>
}>

export const formats: Partial<Readonly<Record<Operation, JudgedFormat>>> = {
  chat: chatFormat,
  responses: responsesFormat,
  messages: messagesFormat,
  generate: generateFormat,
}

/**
 * Judges the traffic between programs and models. Results of tools in a request come first, because one may make the conversation
 * untrusted; then the calls in the answer, which are held until they are judged.
 */
export function createJudging({ tools, random }: Readonly<{ tools: ToolJudge; random: Random }>): Judging {
  const chains = createResponseChains()

  function begin(input: JudgingInput): JudgedRequest | undefined | Promise<JudgedRequest | undefined> {
    const { operation, body, bytes } = input
    const format = formats[operation]
    if (format === undefined || body === undefined) return undefined
    const part = { ...input, body, format }
    return bytes < LARGE_BYTES ? beginNow(part) : beginInTurns(part)
  }

  /** Reading a large request, judging it and computing its cost take a turn each. Others are served in between. */
  async function beginInTurns(part: ReadRequest): Promise<JudgedRequest | undefined> {
    await nextTurn()
    const request = await beginNow(part)
    await nextTurn()
    return request
  }

  function beginNow(input: ReadRequest): JudgedRequest | undefined | Promise<JudgedRequest | undefined> {
    const { caller, proxy, operation, headers, body, format } = input
    const hasPolicies = tools.hasPolicies(caller.principal.tenant)
    const mayRefuse = hasPolicies || tools.isRestrictive
    // While nothing could be refused, answers are not judged, and nobody notes what passes.
    const opaque = mayRefuse ? opaqueParts(body) : NO_PARTS
    const referred = chains.referredBy(caller, format, body, opaque)
    const results = [...format.results(body, referred.calls), ...referred.results]
    // Content that never passed through here counts as read: what the provider has stored, and what it fetches.
    const isUnseen = referred.isUnseen || format.refersToUnseen?.(body) === true
    if (results.length === 0 && !mayRefuse && !isUnseen) return undefined
    const isStored = operation === 'responses' && mayRefuse && body['store'] !== false
    const beginning = format.beginning(body) ?? (results.length > 0 ? [] : undefined)
    const contexts = [...new Set([...contextsOf(caller, proxy, headers, body, beginning), ...referred.contexts])]
    if (isStored && contexts.length === 0) contexts.push(`conversation:proxy-${randomId(random, 'chain')}`)
    const isTainted = tools.isUntrusted(caller.principal.tenant, contexts)
    // From now on these parts belong to this conversation: if a person clears it, they are cleared too.
    const adopt = (): void => chains.addOpaque(caller, referred.strange, { contexts, isUnseen: false, ...newAnswer() })
    const known = whenKnown(isTainted, (already) => {
      if (already) adopt()
      if (!isUnseen || already || contexts.length === 0) return proxy?.isUntrusted === true || isUnseen || already
      return tools.taint(caller.principal, contexts, { kind: 'unseen' }).then(() => {
        adopt()
        return true
      })
    })
    const part = { ...input, results, hasPolicies, mayRefuse, contexts, referred, isStored, isUnseen }
    return whenKnown(known, (isUntrusted) => {
      // Nothing can be refused, and nothing more can become untrusted.
      return !mayRefuse && isUntrusted ? undefined : judged(part, isUntrusted)
    })
  }

  /** At once where the request has neither results nor tools of the provider. */
  function judged(part: Part, wasUntrusted: boolean): JudgedRequest | Promise<JudgedRequest> {
    const { format, body, caller, mayRefuse, contexts, referred, isStored, isUnseen, results } = part
    const decisions: Decision[] = []
    const subject = subjectOf(part)
    const told = newAnswer()
    const { judge, images } = judgeOf(part, subject, decisions, told)
    const changed = results.length > 0 && judgeResults(part, subject, wasUntrusted, decisions)
    return whenKnown(changed, (isChanged) => {
      const providerTools = mayRefuse ? format.providerTools(body) : NO_TOOLS
      const refusedTools = providerTools.length === 0 ? NO_TOOLS : removeTools(part, providerTools, judge)
      return whenKnown(refusedTools, (removed): JudgedRequest => {
        const hasAnswered = referred.answerRefused(body as MutableFields)
        return {
          isChanged: isChanged || removed.length > 0 || hasAnswered,
          decisions,
          removed,
          answer: mayRefuse ? withoutDeniedImages(createAnswerJudge(format, pacedJudge(judge)), images) : undefined,
          ...(isStored && { answered: (id) => chains.add(caller, id, { contexts, isUnseen, ...told }) }),
        }
      })
    }) as JudgedRequest | Promise<JudgedRequest>
  }

  /** Returns whether one was replaced. Taints are on disk before this resolves. */
  async function judgeResults(
    { results, caller, hasPolicies, contexts, signal }: Part,
    subject: CallSubject,
    wasUntrusted: boolean,
    decisions: Decision[],
  ): Promise<boolean> {
    let isUntrusted = wasUntrusted
    let isChanged = false
    const pace = createPace()
    for (const result of results) {
      if (isUntrusted && !hasPolicies) break
      const turn = pace()
      if (turn !== undefined) await turn
      const answer = tools.result({ ...subject, isUntrusted }, result.call, result.value)
      const verdict = answer instanceof Promise ? await answer : answer
      const { action, tool, policy, from } = verdict
      if (action === 'trusted') continue
      // The provider has what it stores, whatever a policy says of showing it.
      const isDisplayed = action === 'untrusted' || result.isStored === true
      const replaced = isDisplayed
        ? undefined
        : await replacement(caller.principal, signal(), result, verdict, decisions)
      if (replaced !== undefined) {
        result.replace(replaced.text)
        isChanged = true
      }
      if (!isUntrusted || !isDisplayed) decisions.push(...verdict.trace.map((one) => ({ ...one, tool })))
      if (replaced?.isTrusted === true || isUntrusted) continue
      await tools.taint(caller.principal, contexts, {
        kind: from === undefined ? 'tool_result' : 'inherited',
        tool,
        ...(policy !== undefined && { policy }),
        ...(from !== undefined && { from }),
      })
      isUntrusted = true
    }
    return isChanged
  }

  async function replacement(
    principal: Principal,
    signal: AbortSignal,
    { value }: HistoryResult,
    { action, tool, policy, reason }: Judged<Readonly<{ action: string; policy?: string; reason: string }>>,
    decisions: Decision[],
  ): Promise<Readonly<{ text: string; isTrusted: boolean }>> {
    if (action === 'block') return { text: blockedText(tool, policy, reason), isTrusted: false }
    try {
      const summary = await tools.sanitise(principal, policy ?? '', textIn(value), signal)
      return { text: sanitisedText(tool, summary), isTrusted: true }
    } catch (error) {
      if (signal.aborted || !(error instanceof AppError)) throw error
      decisions.push({ stage: 'trusted-data', verdict: 'deny', reason: error.code, tool })
      return { text: blockedText(tool, policy, 'it could not be sanitised'), isTrusted: false }
    }
  }

  function judgeOf(
    { caller, proxy, contexts, isUnseen, isStored }: Part,
    subject: CallSubject,
    decisions: Decision[],
    answer: AnswerParts,
  ): Readonly<{ judge: CallJudge; images: ImageRule }> {
    const isFixed = proxy?.isUntrusted === true || isUnseen
    const link: ResponseLink = { contexts, isUnseen: isFixed, ...answer }
    const told = (call: ModelCall, verdict: Judged<InvocationVerdict>): string | undefined => {
      decisions.push(...verdict.trace.map((one) => ({ ...one, tool: verdict.tool })))
      if (verdict.action === 'allow') {
        if (isStored) answer.allow(call)
        return undefined
      }
      const text = refusalText(verdict)
      if (call.id !== undefined) answer.refused.push({ callId: call.id, text })
      return text
    }
    const verdictOf = (call: ModelCall) => {
      const isUntrusted = isFixed || answer.ran.size > 0 || tools.isUntrusted(caller.principal.tenant, contexts)
      return whenKnown(isUntrusted, (untrusted) => tools.call({ ...subject, isUntrusted: untrusted }, call)) as
        | Judged<InvocationVerdict>
        | Promise<Judged<InvocationVerdict>>
    }
    const judge: CallJudge = {
      refusalOf: (call) =>
        whenKnown(verdictOf(call), (verdict) => told(call, verdict)) as
          | string
          | undefined
          | Promise<string | undefined>,
      providerRan: (tool) => void answer.ran.add(tool),
      wrote: answer.wrote,
      wroteOpaque: (part) => chains.addOpaque(caller, [part], link),
    }
    return { judge, images: imageRule(() => verdictOf(IMAGE_CALL), answer, decisions) }
  }

  /** Calls of tools that the provider runs cannot be held, so the model does not get a denied tool. */
  async function removeTools(
    { format, body }: Part,
    providerTools: readonly string[],
    judge: CallJudge,
  ): Promise<readonly string[]> {
    const removed = new Set<string>()
    for (const name of new Set(providerTools)) {
      if ((await judge.refusalOf({ name, args: {} })) !== undefined) removed.add(name)
    }
    if (removed.size > 0) format.removeTools(body as MutableFields, removed)
    return [...removed]
  }

  return { begin }
}

/** Judged once, and again when the provider has run a tool, whose result may not be trusted. */
function imageRule(
  verdictOf: () => Judged<InvocationVerdict> | Promise<Judged<InvocationVerdict>>,
  { ran }: Pick<AnswerParts, 'ran'>,
  decisions: Decision[],
): ImageRule {
  let known: Judged<InvocationVerdict> | undefined
  let knownAfter = -1
  return {
    isDenied() {
      if (knownAfter === ran.size) return known!.action !== 'allow'
      const { size } = ran
      return whenKnown(verdictOf(), (verdict) => {
        known = verdict
        knownAfter = size
        return verdict.action !== 'allow'
      })
    },
    denied: () => void decisions.push(...known!.trace.map((one) => ({ ...one, tool: known!.tool }))),
  }
}

const LARGE_BYTES = 256 * 1024
const NO_TOOLS: readonly string[] = []
const NO_PARTS: readonly string[] = []

type ReadRequest = JudgingInput & Readonly<{ body: Fields; format: JudgedFormat }>

type Part = ReadRequest &
  Readonly<{
    results: readonly HistoryResult[]
    hasPolicies: boolean
    mayRefuse: boolean
    contexts: readonly ContextKey[]
    referred: ReferredAnswers
    isStored: boolean
    isUnseen: boolean
  }>

function subjectOf({ caller, proxy, headers }: Part): CallSubject {
  const label = textOf(headers['x-castellan-agent-id']) ?? textOf(headers['x-archestra-agent-id'])
  return {
    principal: caller.principal,
    origin: 'proxy',
    ...(proxy !== undefined && { profile: proxy.id }),
    ...(label !== undefined && { externalAgentId: label }),
  }
}

/** Replaces a call, for the model to read in its next turn. */
function refusalText({ tool, policy, reason, becauseUntrusted }: Judged<InvocationVerdict>): string {
  const by = policy === undefined ? 'by a rule of this server' : `by the policy ${policy}`
  const where = becauseUntrusted ? ' This conversation has read untrusted data.' : ''
  return `[Castellan] The call to '${tool}' was denied ${by}. Reason: ${reason}.${where} The call was not made. Continue without it.`
}

const blockedText = (tool: string, policy: string | undefined, reason: string): string =>
  `[Castellan] The result of '${tool}' was blocked${policy === undefined ? '' : ` by the policy ${policy}`}. Reason: ${reason}. Do not repeat the call.`

const sanitisedText = (tool: string, summary: string): string =>
  `[Castellan] The result of '${tool}' is not shown, because a policy requires sanitising. Summary by a model that did not see the result: ${summary}`

/** The text for the quarantined model. */
function textIn(value: unknown): string {
  const { content } = (value ?? {}) as { content?: unknown }
  if (!Array.isArray(content)) return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
  return content
    .map((block: unknown) => textOf((block as { text?: unknown } | null)?.text) ?? JSON.stringify(block))
    .join('\n')
}
