import type { IncomingHttpHeaders } from 'node:http'
import { AppError } from '../../contract/app-error.ts'
import type { Decision } from '../../contract/decision.ts'
import type { Principal } from '../../contract/principal.ts'
import type { InvocationVerdict } from '../../contract/tool-policies.ts'
import type { ContextKey } from '../../contract/trust.ts'
import { type Random, randomId } from '../../kernel/random.ts'
import type { Caller, ProxyFacts } from '../ports.ts'
import { type Operation, textOf } from '../protocols/protocol.ts'
import { chatFormat, listOf } from './chat-format.ts'
import { contextsOf } from './conversation.ts'
import { createAnswerJudge, whenKnown } from './events.ts'
import { generateFormat } from './generate-format.ts'
import { messagesFormat } from './messages-format.ts'
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
import { createResponseChains, type ResponseLink } from './response-chains.ts'
import { responsesFormat } from './responses-format.ts'

export type JudgingInput = Readonly<{
  caller: Caller
  proxy: ProxyFacts | undefined
  operation: Operation
  headers: IncomingHttpHeaders
  /** As it goes to the provider. Results that may not be shown are replaced in it. */
  body: Fields | undefined
  signal: AbortSignal
}>

export type Judging = Readonly<{
  /**
   * Undefined where there is nothing to judge. Where a rule could refuse a call, every answer is judged, whatever the request offers:
   * how a provider reads a request is the provider's, and tools may be stored there.
   */
  begin(input: JudgingInput): JudgedRequest | undefined | Promise<JudgedRequest | undefined>
}>

const formats: Partial<Readonly<Record<Operation, JudgedFormat>>> = {
  chat: chatFormat,
  responses: responsesFormat,
  messages: messagesFormat,
  generate: generateFormat,
}

/**
 * Judges what passes between programs and models. Results of tools in a request come first, because reading one may make the
 * conversation untrusted; then the calls in the answer, which are held until they are judged.
 */
export function createJudging({ tools, random }: Readonly<{ tools: ToolJudge; random: Random }>): Judging {
  const chains = createResponseChains()

  function begin(input: JudgingInput): JudgedRequest | undefined | Promise<JudgedRequest | undefined> {
    const { caller, proxy, operation, headers, body } = input
    const format = formats[operation]
    if (format === undefined || body === undefined) return undefined
    const results = format.results(body)
    const hasPolicies = tools.hasPolicies(caller.principal.tenant)
    const mayRefuse = hasPolicies || tools.isRestrictive
    if (results.length === 0 && !mayRefuse) return undefined
    const previous = operation === 'responses' ? textOf(body['previous_response_id']) : undefined
    const link = previous === undefined ? undefined : chains.find(caller, previous)
    const isStored = operation === 'responses' && mayRefuse && body['store'] !== false
    const beginning = format.beginning(body) ?? (results.length > 0 ? [] : undefined)
    const contexts = [...contextsOf(caller, proxy, headers, body, beginning), ...(link?.contexts ?? [])]
    if (isStored && contexts.length === 0) contexts.push(`conversation:proxy-${randomId(random, 'chain')}`)
    // What the provider has stored and nobody here has seen pass counts as read.
    const isUnseen = format.refersToStored?.(body) === true && link?.isUnseen !== false
    const known = proxy?.isUntrusted === true || isUnseen || tools.isUntrusted(caller.principal.tenant, contexts)
    const part = { ...input, body, format, results, hasPolicies, mayRefuse, contexts, link, isStored, isUnseen }
    return whenKnown(known, (isUntrusted) => {
      // Nothing can be changed, and nothing more can become untrusted.
      return !mayRefuse && isUntrusted ? undefined : judged(part, isUntrusted)
    })
  }

  async function judged(part: Part, wasUntrusted: boolean): Promise<JudgedRequest> {
    const { format, body, caller, mayRefuse, contexts, link, isStored, isUnseen } = part
    const decisions: Decision[] = []
    const subject = subjectOf(part)
    const isChanged = await judgeResults(part, subject, wasUntrusted, decisions)
    const refused: { callId: string; text: string }[] = []
    const judge = judgeOf(part, subject, decisions, refused)
    const removed = mayRefuse ? await removeTools(part, judge) : []
    const hasAnswered = answerRefused(body as MutableFields, link)
    return {
      isChanged: isChanged || removed.length > 0 || hasAnswered,
      decisions,
      removed,
      answer: mayRefuse ? createAnswerJudge(format, judge) : undefined,
      ...(isStored && { answered: (id) => chains.add(caller, id, { contexts, isUnseen, refused }) }),
    }
  }

  /** Answers whether one was replaced. Whatever makes the conversation untrusted is on disk before this resolves. */
  async function judgeResults(
    { results, caller, hasPolicies, contexts, signal }: Part,
    subject: CallSubject,
    wasUntrusted: boolean,
    decisions: Decision[],
  ): Promise<boolean> {
    let isUntrusted = wasUntrusted
    let isChanged = false
    for (const result of results) {
      if (isUntrusted && !hasPolicies) break
      const answer = tools.result({ ...subject, isUntrusted }, result.call, result.value)
      const verdict = answer instanceof Promise ? await answer : answer
      const { action, tool, policy } = verdict
      if (action === 'trusted') continue
      const isDisplayed = action === 'untrusted'
      const replaced = isDisplayed ? undefined : await replacement(caller.principal, signal, result, verdict, decisions)
      if (replaced !== undefined) {
        result.replace(replaced.text)
        isChanged = true
      }
      if (!isUntrusted || !isDisplayed) decisions.push(...verdict.trace.map((one) => ({ ...one, tool })))
      if (replaced?.isTrusted === true || isUntrusted) continue
      await tools.taint(caller.principal.tenant, contexts, {
        kind: 'tool_result',
        tool,
        ...(policy !== undefined && { policy }),
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
    { caller, proxy, contexts, isUnseen }: Part,
    subject: CallSubject,
    decisions: Decision[],
    refused: { callId: string; text: string }[],
  ): CallJudge {
    const isFixed = proxy?.isUntrusted === true || isUnseen
    let hasProviderRun = false
    const told = (call: ModelCall, verdict: Judged<InvocationVerdict>): string | undefined => {
      decisions.push(...verdict.trace.map((one) => ({ ...one, tool: verdict.tool })))
      if (verdict.action === 'allow') return undefined
      const text = refusalText(verdict)
      if (call.id !== undefined) refused.push({ callId: call.id, text })
      return text
    }
    return {
      refusalOf(call) {
        const isUntrusted = isFixed || hasProviderRun || tools.isUntrusted(caller.principal.tenant, contexts)
        return whenKnown(isUntrusted, (untrusted) =>
          whenKnown(tools.call({ ...subject, isUntrusted: untrusted }, call), (verdict) => told(call, verdict)),
        ) as string | undefined | Promise<string | undefined>
      },
      providerRan() {
        hasProviderRun = true
      },
    }
  }

  /** Calls of tools that the provider runs cannot be held, so the model does not get a tool that it might not call. */
  async function removeTools({ format, body }: Part, judge: CallJudge): Promise<readonly string[]> {
    const removed = new Set<string>()
    for (const name of new Set(format.providerTools(body))) {
      if ((await judge.refusalOf({ name, args: {} })) !== undefined) removed.add(name)
    }
    if (removed.size > 0) format.removeTools(body as MutableFields, removed)
    return [...removed]
  }

  return { begin }
}

type Part = JudgingInput &
  Readonly<{
    body: Fields
    format: JudgedFormat
    results: readonly HistoryResult[]
    hasPolicies: boolean
    mayRefuse: boolean
    contexts: readonly ContextKey[]
    link: ResponseLink | undefined
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

/** The provider has calls that the program never saw, and takes no further request before they are answered. */
function answerRefused(body: MutableFields, link: ResponseLink | undefined): boolean {
  if (link === undefined || link.refused.length === 0) return false
  const { input } = body
  const said =
    typeof input === 'string' ? [{ role: 'user', content: input }] : Array.isArray(input) ? input : listOf(input)
  const answers = link.refused.map(({ callId, text }) => ({
    type: 'function_call_output',
    call_id: callId,
    output: text,
  }))
  body['input'] = [...answers, ...said]
  return true
}

/** In the place of a call, for the model to read when it goes on. */
function refusalText({ tool, policy, reason, becauseUntrusted }: Judged<InvocationVerdict>): string {
  const by = policy === undefined ? 'by the governance of this server' : `by the policy ${policy}`
  const where = becauseUntrusted ? ' This conversation has read untrusted data.' : ''
  return `[Castellan] The call of '${tool}' is denied ${by}. Its reason: ${reason}.${where} The call was not made. Go on without it.`
}

const blockedText = (tool: string, policy: string | undefined, reason: string): string =>
  `[Castellan] The result of '${tool}' is blocked${policy === undefined ? '' : ` by the policy ${policy}`}. Its reason: ${reason}. Do not call it again for the same.`

const sanitisedText = (tool: string, summary: string): string =>
  `[Castellan] The result of '${tool}' is not shown, because a policy has it sanitised. A summary, in words of a model that did not see it: ${summary}`

/** What the quarantined model reads. */
function textIn(value: unknown): string {
  const { content } = (value ?? {}) as { content?: unknown }
  if (!Array.isArray(content)) return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
  return content
    .map((block: unknown) => textOf((block as { text?: unknown } | null)?.text) ?? JSON.stringify(block))
    .join('\n')
}
