import type { Call } from '../../contract/call.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { Engine } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { Models } from '../executions/model.ts'
import type { ManifestKind } from '../executions/ports.ts'
import type { ExecutionService } from '../executions/service.ts'
import { authoring, authorOf, type TemplateSource } from './authors.ts'

type Likeness = Readonly<{ name: string; score: number }>
type AuthoringDeps = Readonly<{
  engine: Pick<Engine, 'start'>
  executions: Pick<ExecutionService, 'ownerOf'>
  agents: TemplateSource
  models: Pick<Models, 'requireAlias'>
  /** Existing agents or workflows that a request could mean, most similar first. */
  alike(call: Call, kind: ManifestKind, prompt: string): Promise<readonly Likeness[]>
}>
export type AuthoringService = ReturnType<typeof createAuthoringService>

/** The lowest similarity that causes a warning. */
const ALIKE_MIN = 0.7

/**
 * Generates agents and workflows from a request. The generation is an execution of the authoring agent, which callers wait for
 * like any other.
 */
export function createAuthoringService(deps: AuthoringDeps) {
  return {
    async generate(call: Call, kind: ManifestKind, { input: prompt }: Readonly<{ input: string }>) {
      const { principal, nowMs } = call
      const author = await authorOf(deps, kind)
      for (const { name, score } of await deps.alike(call, kind, prompt)) {
        if (score < ALIKE_MIN) continue
        call.warn(`A similar ${kind} already exists: '${name}' (similarity ${score}). Consider using that one.`)
      }
      const { id, name, version } = author
      const run = await call.transact(async (write) =>
        deps.engine.start(
          { write, principal, nowMs },
          {
            kind: 'execution',
            subjectId: id,
            subjectName: name,
            subjectVersion: version,
            owner: await deps.executions.ownerOf(write as unknown as ReadTx, principal),
            input: authoring(author, kind, prompt) as unknown as Json,
            payload: { agent_id: id, agent: name, version, intent: prompt, generates: kind, by: principal.actor },
          },
        ),
      )
      call.record({ kind: `${kind}_generation_started`, body: { run_id: run.id, owner: run.owner } })
      return { execution_id: run.id, status: 'started' as const }
    },
  }
}
