import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type RealServer, startRealServer } from '../support/real-server.ts'
import { runCastellan } from '../support/run-castellan.ts'

/**
 * A server started in a folder that another user prepared: its links lead from the skills to the state. A client that reads
 * skills must get nothing of the state, and the looking alone must not cost the server its locks.
 */
let home = ''
let server: RealServer | undefined

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'castellan-hostile-'))
  const skills = join(home, '.agents', 'skills')
  const manifests = { honest: join(skills, 'honest'), x: home, y: join(home, 'state') }
  for (const [name, folder] of Object.entries(manifests)) {
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'SKILL.md'), `---\nname: ${name}\ndescription: Read me.\n---\n\nRead me.\n`)
  }
  symlinkSync('../..', join(skills, 'x'))
  symlinkSync('../../state', join(skills, 'y'))
  symlinkSync('../../../state/log-key.json', join(skills, 'honest', 'key.json'))
})

afterEach(async () => {
  server?.kill('SIGKILL')
  await server?.ended
  server = undefined
  rmSync(home, { recursive: true, force: true })
})

async function start(): Promise<RealServer> {
  server = await startRealServer({ dataDir: './state', workingDirectory: home })
  return server
}

async function run(...args: string[]): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await runCastellan([...args, '--data-dir', './state', '--json'], { home })
  expect([code, stderr]).toEqual([0, ''])
  return JSON.parse(stdout) as Record<string, unknown>
}

const createKey = async (name: string, scopes: string): Promise<string> =>
  String((await run('keys', 'create', name, '--scopes', scopes))['secret'])

async function connect(url: string, key: string): Promise<Client> {
  const client = new Client({ name: 'e2e', version: '1.0.0' })
  const headers = { authorization: `Bearer ${key}` }
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }))
  return client
}

const stateFiles = ['log-key.json', 'castellan.db', 'owner.lock', 'SKILL.md']
const wanted = stateFiles.flatMap((file) => [`skill://x/state/${file}`, `skill://y/${file}`])

describe('links from the skills to the state', () => {
  test.each([
    ['task:read', []],
    ['skill:read', ['skill://honest/SKILL.md']],
  ])('with the scope %s nothing of the state is shown', async (scopes, served) => {
    const { url } = await start()
    const client = await connect(url, await createKey('reader', scopes))
    const { resources } = await client.listResources()
    expect(resources.map(({ uri }) => uri).filter((uri) => !uri.endsWith('index.json'))).toEqual(served)
    for (const uri of [...wanted, 'skill://x/SKILL.md', 'skill://honest/key.json']) {
      await expect(client.readResource({ uri }), uri).rejects.toThrow()
    }
    const honest = client.readResource({ uri: 'skill://honest/SKILL.md' })
    if (scopes === 'skill:read') expect((await honest).contents).toMatchObject([{ uri: 'skill://honest/SKILL.md' }])
    else await expect(honest).rejects.toThrow()
    await client.close()
  })

  test('looking costs the server neither its ownership nor acknowledged work', async () => {
    const { url, pid, kill, ended } = await start()
    const client = await connect(url, await createKey('reader', 'skill:read,task:*'))
    const created: unknown[] = []
    for (const title of ['one', 'two', 'three']) {
      await client.listResources()
      await client.readResource({ uri: 'skill://x/state/castellan.db' }).catch(() => undefined)
      const answer = await client.callTool({ name: 'task_create', arguments: { title, project: 'p' } })
      created.push((answer.structuredContent as { task_id: string }).task_id)
      expect(await run('call', 'server_health')).toMatchObject({ owner_pid: pid })
      const other = await run('call', 'task_create', `title=${title}`, 'project=p')
      created.push(other['task_id'])
    }
    await client.close()
    kill('SIGKILL')
    expect(await ended).toBe('SIGKILL')
    const { tasks } = (await run('call', 'task_list', 'limit=100')) as { tasks: { task_id: string }[] }
    expect(tasks.map((task) => task.task_id).toSorted()).toEqual(created.toSorted())
  })

  test('are told to the operator', async () => {
    await start()
    const { problems } = (await run('call', 'server_health')) as { problems: string[] }
    expect(problems.filter((problem) => problem.includes('the data directory, which is never served'))).toHaveLength(2)
  })
})
