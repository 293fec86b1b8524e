import type { Call, Transport } from '../../contract/call.ts'
import type { Decision } from '../../contract/decision.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import type { PolicySubject, PolicyTool } from '../../contract/tool-policies.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { nextTurn } from '../../kernel/time-slicer.ts'
import type { PolicySet } from './compile.ts'
import type { PolicyEngine } from './engine.ts'
import { type KnownFacts, recordedTrust, type Simulated, simulateCall, type UnknownFact } from './simulate.ts'

type Reading = Pick<Call, 'principal' | 'read'>

/** A call as the log has it. */
export type RecordedCall = Readonly<{
  seq: number
  call_id: string
  at: string
  tool: string
  transport: string
  code?: string
  /** The digest of its arguments. */
  input: string
  content?: Readonly<{ input: unknown }>
  decisions?: readonly Decision[]
  principal: Readonly<Record<string, string>>
}>
type RecordedPage = Readonly<{ fromSeq: number; nextSeq: number | null; calls: readonly RecordedCall[] }>

/** Arguments to look for: by their digests, in calls between these times. */
export type RequestedArguments = Readonly<{ digests: ReadonlySet<string>; fromMs: number; toMs: number }>

export type SimulationDeps = Readonly<{
  engine: Pick<PolicyEngine, 'policiesOf' | 'governance'>
  findTool(call: Reading, toolId: string): Promise<PolicyTool | undefined>
  /** Recorded calls of the tenant, from at most `entries` log entries from that position on. */
  recordedCalls(call: Reading, fromSeq: number | undefined, entries: number): Promise<RecordedPage>
  /** Arguments by their digest, from texts that are retained and that the caller may read. */
  retainedArguments(call: Reading, requested: RequestedArguments): Promise<ReadonlyMap<string, unknown>>
  /** The arguments as rules see them, with defaults; undefined if the tool refuses them, so that no rule ever sees them. */
  validated(call: Reading, tool: string, args: unknown): Promise<Readonly<{ value: unknown }> | undefined>
}>

export type SimulatedCalls = Readonly<{
  untrusted?: boolean | undefined
  from_seq?: number | undefined
  limit: number
}>

const NO_ARGUMENTS = `sha256:${sha256Hex('{}')}`

/** Other policies over recorded calls. The log has digests of arguments; arguments that are retained elsewhere are found by them. */
export function createSimulation(deps: SimulationDeps) {
  const { engine } = deps

  async function run(call: Reading, after: PolicySet, input: SimulatedCalls) {
    const before = await engine.policiesOf(call.principal.tenant)
    const page = await deps.recordedCalls(call, input.from_seq, input.limit)
    const tools = new Map<string, PolicyTool>()
    const simulated = (facts: KnownFacts): Simulated => simulateCall(before, after, engine.governance, facts)
    const results: Simulated[] = []
    const open: Readonly<{ index: number; one: RecordedCall; facts: KnownFacts }>[] = []
    for (const [index, one] of page.calls.entries()) {
      if (index % CALLS_PER_TURN === 0) await nextTurn()
      if (!tools.has(one.tool))
        tools.set(one.tool, (await deps.findTool(call, one.tool)) ?? { name: one.tool, origin: 'unknown' })
      const isUntrusted = input.untrusted ?? recordedTrust(one.decisions ?? [])
      const facts = { subject: recordedSubject(call.principal, one), tool: tools.get(one.tool)!, isUntrusted }
      const result = simulated(facts)
      results.push(result)
      if (result.kind === 'undecided' && asksFor(result, 'arguments')) open.push({ index, one, facts })
    }
    if (open.length > 0) {
      const known = await argumentsOf(
        call,
        open.map(({ one }) => one),
      )
      for (const { index, one, facts } of open) {
        const retained = known.get(one.input)
        if (retained === undefined) continue
        const args = await deps.validated(call, one.tool, retained.value)
        results[index] = args === undefined ? { kind: 'unchanged' } : simulated({ ...facts, args })
      }
    }
    return answerOf(page, results)
  }

  async function argumentsOf(call: Reading, calls: readonly RecordedCall[]) {
    const known = new Map<string, Readonly<{ value: unknown }>>([[NO_ARGUMENTS, { value: {} }]])
    for (const { input, content } of calls) if (content !== undefined) known.set(input, { value: content.input })
    const requested = calls.filter(({ input }) => !known.has(input))
    if (requested.length === 0) return known
    const times = requested.map(({ at }) => Date.parse(at))
    const digests = new Set(requested.map(({ input }) => input))
    const range = { fromMs: Math.min(...times), toMs: Math.max(...times) }
    for (const [digest, value] of await deps.retainedArguments(call, { digests, ...range }))
      known.set(digest, { value })
    return known
  }

  return { run }
}

const CALLS_PER_TURN = 100

const asksFor = ({ because }: Extract<Simulated, { kind: 'undecided' }>, fact: UnknownFact): boolean =>
  [...because.values()].some((facts) => facts.has(fact))

function answerOf(page: RecordedPage, results: readonly Simulated[]) {
  const changes = page.calls.flatMap(({ seq, call_id, at, tool, principal, code = null }, index) => {
    const result = results[index]!
    if (result.kind !== 'changed') return []
    const actor = principal['actor'] ?? ''
    return [{ seq, call_id, at, tool, actor, code, before: [result.before], after: [result.after] }]
  })
  const because = new Map<string, { calls: number; why: Set<UnknownFact> }>()
  let undecided = 0
  for (const result of results) {
    if (result.kind !== 'undecided') continue
    undecided++
    for (const [policy, facts] of result.because) {
      const noted = because.get(policy) ?? { calls: 0, why: new Set() }
      because.set(policy, noted)
      noted.calls++
      for (const fact of facts) noted.why.add(fact)
    }
  }
  return {
    from_seq: page.fromSeq,
    next_seq: page.nextSeq,
    calls: page.calls.length,
    unchanged: page.calls.length - changes.length - undecided,
    changes: changes.slice(0, limits.simulatedChangesMax),
    changes_left_out: Math.max(0, changes.length - limits.simulatedChangesMax),
    undecided_calls: undecided,
    undecided_policies: [...because.keys()],
    undecided: [...because].map(([policy, { calls, why }]) => ({ policy, calls, why: [...why].sort() })),
    note: undecided === 0 ? 'Every call is decided.' : UNDECIDED,
  }
}

const UNDECIDED =
  'The log has digests of arguments. A condition on arguments is decided where interactions.bodies keeps the texts of the request that made the call, and you may read them. If the log does not tell whether a context was untrusted, give untrusted. Teams and external agents are not recorded.'

/** The caller of a recorded call, as far as the log records what policies can test. */
function recordedSubject(
  principal: Principal,
  { principal: who, transport }: RecordedCall,
): Omit<PolicySubject, 'isUntrusted'> {
  const { user, agent, gateway, conversation_id, execution_id, seal_session } = who
  const { tenant, permissions, role, tier } = principal
  const profile = gateway ?? agent
  return {
    principal: {
      ...{
        tenant,
        permissions,
        role,
        tier,
        teams: [],
        kind: who['kind'] as Principal['kind'],
        actor: who['actor'] ?? '',
      },
      ...(user !== undefined && { user }),
      ...(agent !== undefined && { agent }),
      ...(gateway !== undefined && { gateway }),
      ...(conversation_id !== undefined && { conversationId: conversation_id }),
      ...(execution_id !== undefined && { executionId: execution_id }),
      ...(seal_session !== undefined && { sealSessionId: seal_session }),
    },
    origin: transport as Transport,
    ...(profile !== undefined && { profile }),
  }
}
