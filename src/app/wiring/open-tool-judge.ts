import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import type { Decision } from '../../contract/decision.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import type { InvocationVerdict, PolicySubject, PolicyTool, ResultVerdict } from '../../contract/tool-policies.ts'
import { foldedName } from '../../contract/tool-spellings.ts'
import type { ContextKey } from '../../contract/trust.ts'
import { clientTool } from '../../domains/policies/rules.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Judged, JudgedResult, ModelCall, ToolJudge } from '../../model-proxy/judging/ports.ts'
import { type NameReading, readingsOf } from '../../model-proxy/judging/tool-names.ts'
import type { CatalogTool } from '../../tools/runtime/catalog.ts'
import { policyToolOf } from '../../tools/runtime/guard.ts'
import type { ToolView, ToolViews } from '../../tools/runtime/tool-views.ts'
import type { Guardrails } from './open-tool-policies.ts'
import { createResultOrigins } from './result-origins.ts'

type Parts = Readonly<{
  guardrails: Guardrails
  views: Pick<ToolViews, 'viewFor'>
  database: Pick<Database, 'read' | 'write'>
  clock: Clock
  /** Names of this server in the settings of programs. */
  serverNames: readonly string[]
}>

/** The tools that a name may mean. If there are two, the stricter verdict counts. */
type Meaning = Readonly<{ tools: readonly PolicyTool[]; args: unknown; isHere: boolean; displayed: string }>

/** Judges calls and results that pass through the model proxy, by the one engine. */
export function openToolJudge({ guardrails, views, database, clock, serverNames }: Parts): ToolJudge {
  const { engine, trust, sanitiser } = guardrails
  const origins = createResultOrigins({ trust, database })

  function meaningOf(view: ToolView, { name, args }: ModelCall): Meaning | Promise<Meaning> {
    for (const reading of readingsOf(name, serverNames)) {
      const found = toolNamed(view, reading.name)
      if (found === undefined) continue
      if (found.definition.redirects === true && reading.kind !== 'loose') return redirected(view, found, name, args)
      return { tools: readAs(found, reading, name), args, isHere: reading.kind === 'server', displayed: found.name }
    }
    return alike(namesOf(view), name, args) ?? unknown(name, args)
  }

  /** A program may take a similar name for one of ours. It is judged as both, and trusted as neither. */
  function alike(names: Names, name: string, args: unknown): Meaning | undefined {
    for (const reading of readingsOf(name.toLowerCase(), serverNames)) {
      const found = foldedNamesOf(names).get(foldedName(reading.name))
      if (found === undefined) continue
      const tools = [...found].flatMap((tool) => readAs(tool, { ...reading, kind: 'loose' }, name))
      return { tools, args, isHere: false, displayed: boundedName(name) }
    }
    return undefined
  }

  /** A redirecting tool is judged as the one that runs. */
  async function redirected(view: ToolView, tool: CatalogTool, name: string, args: unknown): Promise<Meaning> {
    const { redirect } = await tool.load()
    try {
      const target = redirect!(args, {
        names: view.names,
        documentedNameOf: (spelling) => toolNamed(view, spelling)?.name,
        inputSchemaOf: (documented) => toolNamed(view, documented)?.listed.inputSchema,
      })
      const found = toolNamed(view, target.name)
      if (found !== undefined)
        return { tools: [policyToolOf(found)], args: target.args, isHere: true, displayed: found.name }
    } catch (error) {
      if (!(error instanceof AppError)) throw error
    }
    return unknown(name, args)
  }

  const within = <Out>(
    principal: Principal,
    call: ModelCall | undefined,
    judge: (meaning: Meaning) => Out | Promise<Out>,
  ): Out | Promise<Out> => {
    if (call === undefined) return judge(unknown('', undefined))
    const view = views.viewFor(principal)
    if (view instanceof Promise) return view.then((made) => meaningOf(made, call)).then(judge)
    const meaning = meaningOf(view, call)
    return meaning instanceof Promise ? meaning.then(judge) : judge(meaning)
  }

  /** As in the pipeline, no policy that trusts a tool makes what it shows of others trusted. */
  function judgeResult(
    subject: PolicySubject,
    tool: PolicyTool,
    { args }: Meaning,
    value: unknown,
  ): JudgedResult | Promise<JudgedResult> {
    const verdict = engine.judgeResult(subject, tool, value)
    const origin = origins.untrustedOriginOf(tool, { principal: subject.principal, args, value })
    if (origin === undefined) return verdict
    return Promise.all([verdict, origin]).then(([made, found]) =>
      found === undefined || made.action !== 'trusted' ? made : carried(found.from),
    )
  }

  return {
    isRestrictive: engine.governance === 'restrictive',
    hasPolicies: (tenant) => engine.versionOf(tenant) > 0,
    call: (subject, call) =>
      within(subject.principal, call, (meaning): Judged<InvocationVerdict> | Promise<Judged<InvocationVerdict>> => {
        if (call.args === undefined) return unreadable(meaning)
        return worst(
          meaning.tools.map((tool) => engine.judgeCall(subject, tool, meaning.args)),
          (verdict) => ({ ...approvable(verdict, meaning), tool: meaning.displayed }),
          ({ action }) => (action === 'allow' ? 1 : 0),
        )
      }),
    result: (subject, call, value) =>
      within(subject.principal, call, (meaning): Judged<JudgedResult> | Promise<Judged<JudgedResult>> =>
        worst(
          meaning.tools.map((tool) => judgeResult(subject, tool, meaning, value)),
          (verdict) => ({ ...verdict, tool: meaning.displayed }),
          ({ action }) => careful.indexOf(action),
        ),
      ),
    isUntrusted(tenant, contexts) {
      const answers = contexts.map((context) => trust.isTainted(tenant, context))
      if (answers.includes(true)) return true
      const pending = answers.filter((answer) => answer instanceof Promise)
      return pending.length > 0 && Promise.all(pending).then((all) => all.includes(true))
    },
    async taint(principal, contexts, cause) {
      const { tenant } = principal
      const credential = trust.credentialOf(principal)
      await database.write(tenant, async (tx) => {
        for (const context of contexts) await trust.taint(tx, tenant, { context, cause, credential }, clock.nowMs())
      })
    },
    async sanitise(principal, policy, result, signal) {
      const { tenant } = principal
      const decision = `${tenant}/${policy}@${engine.versionOf(tenant)}`
      return (await sanitiser.sanitise({ principal, decision, result, purpose: null, signal })).text
    },
  }
}

function carried(from: ContextKey | undefined): JudgedResult {
  const reason = from === undefined ? 'nobody knows who wrote it' : 'an untrusted caller wrote it'
  const trace: Decision[] = [{ stage: 'trusted-data', verdict: 'untrusted', reason: 'carried' }]
  return { action: 'untrusted', reason, trace, ...(from !== undefined && { from }) }
}

/** From the strictest to the most lenient. */
const careful: readonly ResultVerdict['action'][] = ['block', 'untrusted', 'sanitise', 'trusted']

function worst<Verdict, Out>(
  verdicts: readonly (Verdict | Promise<Verdict>)[],
  show: (verdict: Verdict) => Out,
  rank: (verdict: Verdict) => number,
): Out | Promise<Out> {
  const choose = (all: readonly Verdict[]): Out => show(all.toSorted((one, other) => rank(one) - rank(other))[0]!)
  return verdicts.some((verdict) => verdict instanceof Promise)
    ? Promise.all(verdicts).then(choose)
    : choose(verdicts as Verdict[])
}

/**
 * Policies for a tool apply to anything with its name. Built-in rules, such as trust in our own answers, apply only behind the
 * name of our server: any program can name a tool like ours.
 */
function readAs(tool: CatalogTool, { kind }: NameReading, name: string): readonly PolicyTool[] {
  const known = policyToolOf(tool)
  if (kind === 'server') return [known]
  const byName: PolicyTool = known.origin === 'platform' ? { id: known.id, name: known.name, origin: 'unknown' } : known
  return kind === 'exact' ? [byName] : [byName, clientTool(boundedName(name))]
}

const boundedName = (name: string): string => name.slice(0, limits.judgedToolCharsMax).toWellFormed()

const unknown = (name: string, args: unknown): Meaning => ({
  tools: [clientTool(boundedName(name))],
  args,
  isHere: false,
  displayed: name === '' ? 'unknown' : boundedName(name),
})

/** Our own server requests the approval when the call arrives. If the program runs the tool itself, nobody would. */
function approvable(verdict: InvocationVerdict, { isHere }: Meaning): InvocationVerdict {
  if (verdict.action !== 'require_approval') return verdict
  if (isHere) return { ...verdict, action: 'allow' }
  return {
    ...verdict,
    action: 'deny',
    reason: 'it needs an approval, and a call outside this server cannot be approved',
  }
}

function unreadable({ displayed }: Meaning): Judged<InvocationVerdict> {
  const reason = 'its name or its arguments cannot be read, so it cannot be judged'
  const trace: Decision[] = [{ stage: 'invocation-policy', verdict: 'deny', reason: 'arguments' }]
  return { action: 'deny', specificity: 'built-in', reason, becauseUntrusted: false, trace, tool: displayed }
}

type Names = ReadonlyMap<string, CatalogTool>
const indexes = new WeakMap<readonly CatalogTool[], Names>()
type FoldedNames = ReadonlyMap<string, ReadonlySet<CatalogTool>>
const foldedIndexes = new WeakMap<Names, FoldedNames>()

function foldedNamesOf(names: Names): FoldedNames {
  const known = foldedIndexes.get(names)
  if (known !== undefined) return known
  const folded = Map.groupBy(names, ([name]) => foldedName(name))
  const tools = new Map([...folded].map(([name, all]) => [name, new Set(all.map(([, tool]) => tool))]))
  foldedIndexes.set(names, tools)
  return tools
}

/** Of several tools with one name it is the one that the caller can use. */
function toolNamed(view: ToolView, name: string): CatalogTool | undefined {
  const own = view.find(name)
  return own?.upstream === undefined ? namesOf(view).get(name) : own
}

/** All tools of the tenant by every name, even those that the caller may not use. */
function namesOf({ corpus }: ToolView): Names {
  const known = indexes.get(corpus)
  if (known !== undefined) return known
  const names = new Map<string, CatalogTool>()
  const add = (name: string, tool: CatalogTool) => void (names.has(name) || names.set(name, tool))
  for (const tool of corpus) add(tool.name, tool)
  for (const tool of corpus) {
    add(tool.safeName, tool)
    for (const alias of tool.upstream?.aliases ?? []) add(alias, tool)
  }
  indexes.set(corpus, names)
  return names
}
