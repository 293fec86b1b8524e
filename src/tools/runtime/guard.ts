import { AppError } from '../../contract/app-error.ts'
import type { Approvals } from '../../contract/approvals.ts'
import type { Decision } from '../../contract/decision.ts'
import type { RawAnswer } from '../../contract/raw-answer.ts'
import type { Sanitiser } from '../../contract/sanitiser.ts'
import type {
  InvocationVerdict,
  PolicySubject,
  PolicyTool,
  ResultVerdict,
  ToolPolicies,
} from '../../contract/tool-policies.ts'
import { ruledNameOf } from '../../contract/tool-spellings.ts'
import type { ContextKey, Taint, Trust } from '../../contract/trust.ts'
import { delegationPolicyTool } from '../../domains/policies/rules.ts'
import type { PolicyEvaluator } from '../../domains/security-contexts/policy-evaluator.ts'
import type { Governed } from '../../domains/security-contexts/read-access-request.ts'
import { createApprovalGate } from './approval-gate.ts'
import { carryFailure, carryTrust, taintOfWriting, taintsOfItems } from './carried-trust.ts'
import type { CatalogTool } from './catalog.ts'
import type { CallRules, ToolDeclaration } from './define-tool.ts'
import { denied, type KnownTool } from './denied-call.ts'
import { blocked, resultText } from './result-texts.ts'
import type { Invocation } from './stages.ts'

type GuardDeps = Readonly<{
  /** Security contexts. */
  policies: PolicyEvaluator
  /** Absent where nothing is stored. */
  toolPolicies?: ToolPolicies | undefined
  trust?: Trust | undefined
  approvals?: Approvals | undefined
  sanitiser?: Pick<Sanitiser, 'sanitise'> | undefined
}>

/**
 * The verdict of rules on a call and on its answer: the security contexts of the caller, and the tenant's policies for the tool.
 * Of several refusals the most specific is reported: a policy with conditions, then a security context, then the default policy
 * of the tool, then the governance.
 */
export function createGuard({ policies, toolPolicies, trust, approvals, sanitiser }: GuardDeps) {
  const gate = createApprovalGate(approvals)

  function judge(invocation: Invocation, tool: PolicyTool): InvocationVerdict | Promise<InvocationVerdict> {
    const { principal } = invocation.caller
    const judged = (isUntrusted: boolean) =>
      toolPolicies!.judgeCall(subjectOf(invocation, isUntrusted), tool, invocation.input)
    // A tool that changes the rules is judged by everything that the program has read, over any connection.
    const found = () =>
      tool.builtIn?.governs === true ? trust!.hasReadUntrusted(principal) : trust!.isUntrusted(principal)
    const needsTrust = toolPolicies!.needsTrust(principal.tenant, tool)
    if (needsTrust === false) return judged(false)
    if (needsTrust === true) {
      const isUntrusted = found()
      return isUntrusted instanceof Promise ? isUntrusted.then(judged) : judged(isUntrusted)
    }
    return needsTrust.then(async (needed) => judged(needed && (await found())))
  }

  function admit(invocation: Invocation): void {
    const { name, definition } = invocation.tool!
    try {
      invocation.release = policies.admit({
        principal: invocation.caller.principal,
        tool: name,
        governed: governedOf(definition, invocation.rules!),
        input: invocation.input as Readonly<Record<string, unknown>>,
      })
    } catch (error) {
      if (error instanceof AppError) invocation.decisions.push(denial(error))
      throw error
    }
  }

  function enforce(invocation: Invocation, tool: KnownTool, verdict: InvocationVerdict): void | Promise<void> {
    invocation.decisions.push(...verdict.trace)
    const isDenied = verdict.action === 'deny'
    if (isDenied && verdict.specificity === 'conditions') throw denied(invocation, tool, verdict)
    admit(invocation)
    if (isDenied) throw denied(invocation, tool, verdict)
    // No approval is requested for a call that is refused anyway.
    if (verdict.action === 'require_approval') return gate.seek(invocation, tool, verdict)
    if (tool.builtIn?.governs === true) return gate.requireNoneAwaited(invocation, tool)
  }

  /** An untrusted result makes the context of the caller untrusted; a blocked result is also not shown. */
  async function judgeResult(invocation: Invocation, tool: PolicyTool, verdict: ResultVerdict): Promise<void> {
    invocation.decisions.push(...verdict.trace)
    if (verdict.action === 'trusted') return
    if (verdict.action === 'sanitise' && (await isSanitised(invocation, tool, verdict))) return
    const { principal } = invocation.caller
    const context = trust!.contextOf(principal)
    if (!(await trust!.isTainted(principal.tenant, context))) {
      const { policy } = verdict
      const cause = {
        kind: 'tool_result',
        tool: tool.name,
        callId: invocation.callId,
        ...(policy && { policy }),
      } as const
      invocation.taints.push({ context, cause, credential: trust!.credentialOf(principal) })
    }
    if (verdict.action === 'block') invocation.blocked = blocked(tool, verdict)
  }

  /**
   * The summary replaces the result and is trusted. Without a summary, the result is not shown and counts as untrusted. Results
   * that are written in one transaction with the record are never sanitised, because other transactions would wait for the
   * models.
   */
  async function isSanitised(invocation: Invocation, tool: PolicyTool, verdict: ResultVerdict): Promise<boolean> {
    const { signal, caller, rules, output } = invocation
    const isOutside = rules!.effect === 'read' || rules!.effect === 'external'
    try {
      if (sanitiser === undefined || !isOutside) throw new AppError('ERR_MODEL_UNAVAILABLE', 'it cannot be sanitised')
      const decision = `${caller.principal.tenant}/${verdict.policy}@${toolPolicies!.versionOf(caller.principal.tenant)}`
      const { text } = await sanitiser.sanitise({
        ...{ principal: caller.principal, decision, purpose: null, signal },
        result: resultText(output),
      })
      show(invocation, tool, text)
      return true
    } catch (error) {
      if (signal.aborted || !(error instanceof AppError)) throw error
      invocation.decisions.push({ stage: 'trusted-data', verdict: 'deny', reason: error.code })
      invocation.blocked = blocked(tool, { ...verdict, reason: 'it could not be sanitised' })
      return false
    }
  }

  function judgeCall(invocation: Invocation): void | Promise<void> {
    if (invocation.options.isOwnScript === true) {
      invocation.decisions.push({
        stage: 'invocation-policy',
        verdict: 'allow',
        reason: 'a script of the server itself',
      })
      return admit(invocation)
    }
    const tool = policyToolOf(invocation.tool!)
    const verdict = judge(invocation, tool)
    return verdict instanceof Promise
      ? verdict.then((made) => enforce(invocation, tool, made))
      : enforce(invocation, tool, verdict)
  }

  function judgeAnswer(invocation: Invocation, tool: PolicyTool): void | Promise<void> {
    const verdict = toolPolicies!.judgeResult(subjectOf(invocation, false), tool, invocation.output)
    if (verdict instanceof Promise) return verdict.then((made) => judgeResult(invocation, tool, made))
    const { principal } = invocation.caller
    // An untrusted result changes nothing in an untrusted context.
    const changesNothing =
      verdict.action === 'trusted' ||
      (verdict.action === 'untrusted' && trust!.isTainted(principal.tenant, trust!.contextOf(principal)) === true)
    if (!changesNothing) return judgeResult(invocation, tool, verdict)
    invocation.decisions.push(...verdict.trace)
  }

  /** A program of a workspace with network access can send data out, so what runs one is judged as a tool that sends. */
  async function requireMaySend(invocation: Invocation): Promise<void> {
    const tool = policyToolOf(invocation.tool!)
    const sends = tool.builtIn?.sends
    // A call that always sends was judged before it began.
    if (toolPolicies === undefined || sends === true || (sends === undefined && !feedsPrograms(tool))) return
    const sending = { ...tool, builtIn: { ...tool.builtIn, sends: true } as const }
    const verdict = await toolPolicies.judgeCall(subjectOf(invocation, true), sending, invocation.input)
    if (verdict.specificity !== 'governance') return
    invocation.decisions.push(...verdict.trace)
    if (verdict.action === 'deny') throw denied(invocation, tool, verdict)
  }

  /**
   * A text of others that reaches the caller besides the result of a call. Resolves to whether the caller may see it; if it makes the
   * context untrusted, that is noted before.
   */
  async function hear(
    invocation: Invocation,
    text: string,
    note: (taint: Taint) => void | Promise<void>,
  ): Promise<boolean> {
    if (toolPolicies === undefined) return true
    const { principal } = invocation.caller
    const { builtIn, ...known } = policyToolOf(invocation.tool!)
    const tool = { ...known, builtIn: { ...builtIn, source: builtIn?.source ?? ('record' as const) } }
    const said: RawAnswer = { content: [{ type: 'text', text }] }
    const verdict = await toolPolicies.judgeResult(subjectOf(invocation, false), tool, said)
    if (verdict.action === 'trusted') return true
    if (verdict.action !== 'untrusted') return false
    const context = trust!.contextOf(principal)
    if (await trust!.isTainted(principal.tenant, context)) return true
    const cause = { kind: 'tool_result', tool: tool.name, callId: invocation.callId } as const
    await note({ context, cause, credential: trust!.credentialOf(principal) })
    return true
  }

  return {
    hear,

    /** Whether the same call would be allowed now, without an approval. */
    async mayCallAgain(invocation: Invocation): Promise<boolean> {
      if (toolPolicies === undefined || invocation.options.isOwnScript === true) return true
      return (await judge(invocation, policyToolOf(invocation.tool!))).action === 'allow'
    },

    /** The error as the caller may see it: one that quotes others is judged like a result, and any may have something of what was read. */
    async hearFailure(invocation: Invocation, error: unknown): Promise<unknown> {
      if (trust !== undefined && invocation.readFrom.size > 0) await carryFailure(trust, invocation)
      if (!(error instanceof AppError) || error.quotes.length === 0 || invocation.tool === undefined) return error
      const { code, message, details, quotes, cause } = error
      const text = quotes.map((name) => String(details[name])).join('\n')
      const mayShow = await hear(invocation, text, (taint) => void invocation.taints.push(taint)).catch(() => false)
      if (mayShow) return error
      const displayed = Object.fromEntries(Object.entries(details).filter(([name]) => !quotes.includes(name)))
      return new AppError(code, message, displayed, { cause })
    },

    async taint(...args: Parameters<Trust['taint']>): Promise<void> {
      await trust?.taint(...args)
    },

    useApproval: gate.use,
    requestApproval: gate.request,

    beforeCall(invocation: Invocation): void | Promise<void> {
      if (toolPolicies === undefined) return admit(invocation)
      const due = trust!.dueTaint(invocation.caller.principal, invocation.nowMs)
      if (due === undefined) return judgeCall(invocation)
      return Promise.resolve(due).then((taint) => {
        if (taint !== undefined) invocation.taints.push(taint)
        return judgeCall(invocation)
      })
    },

    /** For a tool whose effects are outside the store: what is untrusted from its effect on. */
    async beforeEffect(invocation: Invocation): Promise<readonly Taint[]> {
      const { carries } = policyToolOf(invocation.tool!).builtIn ?? {}
      return trust === undefined || carries === undefined ? [] : await taintsOfItems(trust, invocation, carries)
    },

    /** As `beforeEffect`, for one context that the call is about to write to: in its own words, or with what it read elsewhere. */
    async beforeWrite(invocation: Invocation, context: ContextKey, read?: ContextKey): Promise<Taint | undefined> {
      return trust && (await taintOfWriting(trust, invocation, context, read))
    },

    afterCall(invocation: Invocation): void | Promise<void> {
      if (toolPolicies === undefined) return
      const tool = policyToolOf(invocation.tool!)
      const { carries } = tool.builtIn ?? {}
      // Carried trust is determined before the answer may be replaced.
      const isCarrying =
        (carries !== undefined || invocation.readFrom.size + invocation.wroteTo.size > 0) &&
        trust!.mayHaveTaints(invocation.caller.principal.tenant)
      return isCarrying
        ? carryTrust(trust!, invocation, carries).then(() => judgeAnswer(invocation, tool))
        : judgeAnswer(invocation, tool)
    },

    /** A call that turns out to do what a tool that governs does is held to the same rule. */
    async requireMayGovern(invocation: Invocation): Promise<void> {
      const known = policyToolOf(invocation.tool!)
      if (toolPolicies === undefined || known.builtIn?.governs === true) return
      const tool = { ...known, builtIn: { ...known.builtIn, governs: true } as const }
      const verdict = await judge(invocation, tool)
      if (verdict.specificity === 'built-in' && verdict.action === 'deny') {
        invocation.decisions.push(...verdict.trace)
        throw denied(invocation, tool, verdict)
      }
      await gate.requireNoneAwaited(invocation, tool)
    },

    /** What the platform itself creates has the network that its operator chose, and what runs in it is judged when it runs. */
    async openNetwork(invocation: Invocation): Promise<void> {
      const { principal, transport } = invocation.caller
      if (transport !== 'engine' && (await trust?.isUntrusted(principal))) await requireMaySend(invocation)
    },

    /**
     * A call in a workspace carries trust both ways. A caller that reads in an untrusted workspace becomes untrusted. A workspace
     * that an untrusted caller may change is marked untrusted before it is changed.
     */
    async enterWorkspace(
      invocation: Invocation,
      workspaceId: string,
      reachesOut: boolean,
      write: (taint: Taint) => Promise<void>,
    ): Promise<void> {
      if (trust === undefined) return
      const { principal } = invocation.caller
      const { tenant } = principal
      const workspace: ContextKey = `workspace:${workspaceId}`
      const own = trust.contextOf(principal)
      const { callId } = invocation
      const tool = invocation.tool!.name
      invocation.entered.add(workspaceId)
      if ((await trust.isTainted(tenant, workspace)) && !(await trust.isTainted(tenant, own)))
        await write({
          context: own,
          cause: { kind: 'workspace', tool, callId, from: workspace },
          credential: trust.credentialOf(principal),
        })
      const isWriting = invocation.rules!.effect !== 'read'
      if (!(isWriting || readsByPrograms(invocation)) || !(await trust.isUntrusted(principal))) return
      if (reachesOut) await requireMaySend(invocation)
      if (!isWriting) return
      // The caller can also change workspaces that it entered before, while it was still trusted.
      for (const id of invocation.entered) {
        if (await trust.isTainted(tenant, `workspace:${id}`)) continue
        await write({ context: `workspace:${id}`, cause: { kind: 'inherited', tool, callId, from: own } })
      }
    },
  }
}

export type Guard = ReturnType<typeof createGuard>

/** Whether the whole tool only reads, and programs of the workspace do the reading. */
const readsByPrograms = ({ tool }: Invocation): boolean =>
  tool!.definition.effect === 'read' && tool!.definition.trust?.sends === 'open-network'

/** A program that already runs in a workspace can send what a tool writes into its files. */
const feedsPrograms = ({ builtIn, paths }: KnownTool): boolean =>
  builtIn?.sends === undefined && (paths?.length ?? 0) > 0

const policyTools = new WeakMap<CatalogTool, KnownTool>()

/**
 * A tool as policies name it: by its id if it is an upstream tool, by the agent to which it delegates tasks, else by its name.
 */
export function policyToolOf(tool: CatalogTool): KnownTool {
  let known = policyTools.get(tool)
  if (known === undefined) {
    const { name, upstream, definition, delegatesTo } = tool
    known =
      delegatesTo !== undefined
        ? delegationPolicyTool(delegatesTo, name)
        : upstream === undefined
          ? {
              id: ruledNameOf(name),
              name,
              origin: 'platform',
              ...(definition.trust && { builtIn: definition.trust }),
              ...(definition.governed?.command && { commands: definition.governed.command }),
              paths: [...(definition.governed?.paths ?? []), ...(definition.paths ?? [])],
            }
          : { id: upstream.id, name, origin: 'upstream' }
    policyTools.set(tool, known)
  }
  return known
}

function subjectOf({ caller: { principal, transport } }: Invocation, isUntrusted: boolean): PolicySubject {
  const profile = principal.gateway ?? principal.agent
  return { principal, origin: transport, isUntrusted, ...(profile !== undefined && { profile }) }
}

function denial({ code, details }: AppError): Decision {
  const { security_context: policy, violation } = details
  return {
    stage: 'invocation-policy',
    verdict: 'deny',
    ...(typeof policy === 'string' ? { policy } : {}),
    reason: typeof violation === 'string' ? violation : code,
  }
}

/** A tool with an output schema cannot answer with a sentence, so the sentence is a failure. */
function show(invocation: Invocation, { name }: PolicyTool, text: string): void {
  const summary = `The result of '${name}' is not shown, because a policy requires sanitising. Summary by a model that did not see the result: ${text}`
  const { definition, upstream } = invocation.tool!
  if (definition.raw === true && upstream?.outputSchema === undefined) {
    invocation.output = { content: [{ type: 'text', text: summary }] } satisfies RawAnswer
  } else {
    invocation.blocked = { code: 'ERR_RESULT_SANITISED', message: summary, details: { tool: name, summary: text } }
  }
}

/**
 * If a tool runs commands and does not declare which arguments they are, no list of commands can be applied to it. Its paths are those
 * that it declares.
 */
export const governedOf = ({ governed, paths }: ToolDeclaration, { permission }: CallRules): Governed | undefined =>
  governed ?? (permission === 'workspace:exec' ? { opaque: 'commands', ...(paths && { paths }) } : paths && { paths })
