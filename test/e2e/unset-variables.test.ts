import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startClient } from '../support/castellan-client.ts'
import { runCastellanHere } from '../support/castellan-here.ts'
import { agentYaml } from '../support/executions.ts'
import { startRealServer } from '../support/real-server.ts'

/** A configuration that names variables of an environment in which they are not. */
const configuration = `
models:
  default_provider: cloud
  providers:
    - name: cloud
      type: openai
      api_key: env:NO_SUCH_KEY
      models: [{ alias: default, model: m }]
    - name: near
      type: ollama
      endpoint: http://127.0.0.1:9
      models: [{ alias: small, model: m }]
executions:
  secrets: [token env:NO_SUCH_TOKEN]
workspaces:
  credentials: [api.example.org Authorization env:NO_SUCH_CREDENTIAL]
`
const variables = ['NO_SUCH_KEY', 'NO_SUCH_TOKEN', 'NO_SUCH_CREDENTIAL']

let home: string
let file: string
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'castellan-unset-'))
  file = join(home, 'castellan.yaml')
  writeFileSync(file, configuration)
})
afterAll(() => rmSync(home, { recursive: true, force: true }))

const castellan = (...args: string[]) => runCastellanHere([...args, '--config', file, '--data-dir', home], { home })

describe('a variable that is not set', () => {
  test('is named by config validate, which goes on', async () => {
    const { code, stdout } = await castellan('config', 'validate', '--json')
    expect(code).toBe(0)
    const { valid, warnings } = JSON.parse(stdout) as { valid: boolean; warnings: string[] }
    expect(valid).toBe(true)
    for (const variable of variables)
      expect(warnings.join('\n')).toContain(`needs the environment variable ${variable}`)
    const displayed = await castellan('config', 'validate')
    expect(displayed.stdout).toContain(
      "models.providers: 'cloud' needs the environment variable NO_SUCH_KEY. It is not set",
    )
  })

  test('is named by doctor, which shows the models there are', async () => {
    const { stdout } = await castellan('doctor', '--json')
    const { findings } = JSON.parse(stdout) as { findings: { check: string; status: string; detail: string }[] }
    expect(findings).toContainEqual({ check: 'models', status: 'ok', detail: 'near (small)' })
    expect(findings).toContainEqual({
      check: 'models',
      status: 'note',
      detail: expect.stringMatching(/^no price of m is known, .* input_cost_per_million .* 0 if it is free$/),
    })
    for (const variable of variables) {
      expect(findings).toContainEqual(
        expect.objectContaining({ status: 'note', detail: expect.stringContaining(variable) }),
      )
    }
  })

  test('in this terminal is not reported by doctor if the running server has it', async () => {
    const alone = await castellan('doctor')
    expect(alone.stdout).toContain('NO_SUCH_KEY. It is not set in this terminal')
    const env = { HOME: home, NO_SUCH_KEY: 'k'.repeat(20), NO_SUCH_CREDENTIAL: 'c'.repeat(20) }
    const server = await startRealServer({ dataDir: home, args: ['--config', file], env })
    try {
      const { stdout } = await castellan('doctor')
      expect(stdout).toMatch(/^models +ok +cloud \(default\); near \(small\)$/m)
      expect(stdout).not.toMatch(/NO_SUCH_KEY|NO_SUCH_CREDENTIAL|in this terminal/)
      expect(stdout).toContain('NO_SUCH_TOKEN. It is not set, so')
    } finally {
      await server.stop()
    }
  })

  test('ends neither serve nor mcp, and a caller that needs it is told', async () => {
    const server = await startRealServer({ dataDir: home, args: ['--config', file], env: { HOME: home } })
    try {
      const call = async (tool: string, args: object) => {
        const response = await fetch(new URL(`/v1/tools/${tool}`, server.url), {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(args),
        })
        return (await response.json()) as Record<string, unknown>
      }
      const { problems } = (await call('server_health', {})) as { problems: string[] }
      for (const variable of variables) expect(problems.join('\n')).toContain(variable)
      await call('aegis.agent.create', { manifest_yaml: agentYaml('thinker', '  task: { instruction: "Think." }\n') })
      const { execution_id } = await call('aegis.task.execute', { agent_id: 'thinker' })
      const ended = await call('aegis.task.wait', { execution_id, timeout_seconds: 40 })
      expect(ended['last_error']).toMatch(/ERR_MODEL_UNAVAILABLE.*'cloud'.*needs the environment variable NO_SUCH_KEY/)
    } finally {
      await server.stop()
    }
    const client = await startClient({ dataDir: home, args: ['--config', file] })
    try {
      expect(await client.call('server_ping')).toMatchObject({ kind: 'done' })
      expect(client.stderr()).toContain(`state: ${home} (by --data-dir)`)
      expect(client.stderr()).toContain(`configuration: ${file}`)
      expect(client.stderr()).toContain('NO_SUCH_KEY')
    } finally {
      client.endInput()
      await client.ended
    }
  })
})

test('a default provider that does not exist is refused by config validate', async () => {
  writeFileSync(file, configuration.replace('default_provider: cloud', 'default_provider: clowd'))
  const { code, stderr } = await castellan('config', 'validate')
  expect(code).toBe(2)
  expect(stderr).toContain("models.default_provider: there is no enabled provider 'clowd'")
})
