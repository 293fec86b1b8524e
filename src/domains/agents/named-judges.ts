import { AppError } from '../../contract/app-error.ts'
import type { AgentManifest } from './manifest.ts'

type Judged = Pick<AgentManifest, 'name' | 'execution'>

/** The judges that a manifest names, with their fields. */
function judgesIn({ name, execution }: Judged): readonly Readonly<{ field: string; agent: string }>[] {
  const lists = { validation: execution.validation, tool_validation: execution.toolValidation }
  return Object.entries(lists)
    .flatMap(([list, validators]) =>
      validators.flatMap((validator, index) => {
        const at = `spec.execution.${list}[${index}]`
        if (validator.type === 'semantic') return [{ field: `${at}.judge_agent`, agent: validator.judgeAgent }]
        if (validator.type !== 'multi_judge') return []
        return validator.judges.map(({ agent }, position) => ({ field: `${at}.judges[${position}]`, agent }))
      }),
    )
    .filter(({ agent }) => agent !== name)
}

/** Refuses a manifest whose judges do not exist, before any model is called. `resolve` finds agents for the caller. */
export async function requireJudges(manifest: Judged, resolve: (agent: string) => Promise<unknown>): Promise<void> {
  for (const { field, agent } of judgesIn(manifest)) {
    try {
      await resolve(agent)
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'ERR_AGENT_NOT_FOUND') throw error
      const displayed = agent.slice(0, 64).toWellFormed()
      const problem = `there is no agent '${displayed}' to judge; deploy it first (aegis.agent.create), or name another.`
      throw new AppError('ERR_MANIFEST_INVALID', `${field}: ${problem}`, { field, judge: displayed })
    }
  }
}
