import { describe, expect, test } from 'vitest'
import { agentYaml } from '../support/executions.ts'
import { type Key, type KeyedServer, startKeyedServer } from '../support/keyed-server.ts'
import { workflowYaml } from '../support/workflows.ts'

/** What a caller who may not deploy gets by generating, in the real program. */
const handler = '{ type: webhook, url: "https://example.org/mine", headers: { x-a: "secret:token" } }'
const yamls = {
  agent: (name: string) =>
    agentYaml(name, `  task: { instruction: "Work." }\n${name === 'sender' ? `  output_handler: ${handler}\n` : ''}`),
  workflow: (name: string) =>
    workflowYaml(
      name,
      name === 'sender'
        ? `A: { kind: Agent, agent: coder, input: x, output_handler: ${handler}, transitions: [] }`
        : 'A: { kind: System, command: update_blackboard, transitions: [] }',
    ),
}
type Kind = keyof typeof yamls

/** An author that writes what it is told: the request is the name and the version. */
const serve = (kind: Kind) =>
  startKeyedServer(({ text }) => {
    const [, name = 'x', version = '1.0.0'] = /make (\S+) (\d\.\d\.\d)/.exec(text) ?? []
    return { text: JSON.stringify({ manifest_yaml: yamls[kind](name).replace('1.0.0', version) }) }
  })

async function generate({ call }: KeyedServer, kind: Kind, prompt: string, key?: Key): Promise<string> {
  const { execution_id } = await call(`aegis.${kind}.generate`, { input: `make ${prompt}` }, key)
  const { status, last_error } = await call('aegis.task.wait', { execution_id, timeout_seconds: 40 }, key)
  return status === 'completed' ? 'completed' : String(last_error)
}

describe.each(['agent', 'workflow'] as const)(
  'a caller who may not deploy and generates one (%s)',
  { timeout: 180_000 },
  (kind) => {
    test('gets a new one, and adds no version to what is there', async () => {
      const server = await serve(kind)
      const key = await server.newKey()
      await server.call(`aegis.${kind}.create`, { manifest_yaml: yamls[kind]('theirs') })
      expect(await generate(server, kind, 'mine 1.0.0', key)).toBe('completed')
      expect(await generate(server, kind, 'theirs 9.0.0', key)).toContain('another name')
      expect(await generate(server, kind, 'mine 2.0.0', key)).toContain('another name')
      expect(await server.call(`aegis.${kind}.export`, { name: 'theirs' })).toMatchObject({ version: '1.0.0' })
    })

    test('takes no name that the platform has', async () => {
      const server = await serve(kind)
      const shipped = kind === 'agent' ? 'coder' : 'platform-approval-gate'
      expect(await generate(server, kind, `${shipped} 9.0.0`, await server.newKey())).toContain('another name')
    })

    test('has no secret sent to an address of its choice', async () => {
      const server = await serve(kind)
      expect(await generate(server, kind, 'sender 1.0.0', await server.newKey())).toContain(
        'a secret may be named only with',
      )
      expect(await generate(server, kind, 'sender 1.0.0', await server.newKey({ tier: 'system' }))).toBe('completed')
    })

    test('may add a version with the right to deploy', async () => {
      const server = await serve(kind)
      const key = await server.newKey({ tier: 'system' })
      await server.call(`aegis.${kind}.create`, { manifest_yaml: yamls[kind]('theirs') })
      expect(await generate(server, kind, 'theirs 9.0.0', key)).toBe('completed')
      expect(await server.call(`aegis.${kind}.export`, { name: 'theirs' })).toMatchObject({ version: '9.0.0' })
    })
  },
)
