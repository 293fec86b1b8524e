import { expect } from 'vitest'
import type { ServerHere } from './server-here.ts'
import { workflowYaml } from './workflows.ts'

type Reply = Readonly<{ status: number; body: Record<string, unknown> & { error?: { code: string } } }>
type Stage = Readonly<{
  serve(env: Record<string, string>): Promise<ServerHere>
  call(server: ServerHere, tool: string, args: object): Promise<Reply>
}>

/** Settings of `workflows`, each given to the real program. */
export const workflowEffects = ({ serve, call }: Stage): Readonly<Record<string, () => Promise<void>>> => ({
  async 'workflows.judge_agents'() {
    const manifest_yaml = workflowYaml('w', 'A: { kind: System, command: update_blackboard, transitions: [] }')
    const register = async (env: Record<string, string>) =>
      await call(await serve(env), 'aegis.workflow.create', { manifest_yaml })
    expect((await register({})).body).toMatchObject({ deployed: true })
    const judged = await register({ CASTELLAN_WORKFLOWS_JUDGE_AGENTS: 'output-judge' })
    expect(judged.body.error?.code).toBe('ERR_WORKFLOW_REJECTED')
  },
  async 'workflows.images'() {
    const states = 'A: { kind: ContainerRun, name: a, image: "nowhere:1", command: ["true"], transitions: [] }'
    const end = async (env: Record<string, string>) => {
      const server = await serve({ CASTELLAN_WORKSPACES_STORE_GB: '0', ...env })
      await call(server, 'aegis.workflow.create', { manifest_yaml: workflowYaml('w', states) })
      const { execution_id } = (await call(server, 'aegis.workflow.run', { name: 'w' })).body
      return (await call(server, 'aegis.workflow.wait', { execution_id })).body['status']
    }
    expect(await end({})).toBe('failed')
    expect(await end({ CASTELLAN_WORKFLOWS_IMAGES: 'nowhere=host' })).toBe('completed')
  },
})
