import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createSealClient, SealError } from '../../src/seal-client/seal-client.ts'
import { type HttpTransportApp, openHttpTransportApp, type ServedTransport } from '../support/http-transport-peer.ts'
import { runNode } from '../support/run-node.ts'

let peer: HttpTransportApp
let served: ServedTransport
let keyed: ServedTransport

beforeAll(async () => {
  peer = await openHttpTransportApp()
  served = await peer.serve()
  keyed = await peer.serve({ requireKeys: true })
})
afterAll(() => peer.close())

const operator = (more: object = {}) =>
  createSealClient({ url: served.url, securityContext: 'aegis-system-operator', ...more })

describe('the client', () => {
  it('calls tools in one session', async () => {
    let attestations = 0
    const counting: typeof fetch = (input, init) => {
      if (String(input).endsWith('/attest')) attestations++
      return fetch(input, init)
    }
    const client = operator({ fetch: counting })
    const titles = ['é', '"', '\u{1f600}', 'z']
    const made = await Promise.all(titles.map((title) => client.call('task_create', { title, project: 'sealed' })))
    expect(made).toHaveLength(4)
    expect(await client.call('task_list', { project: 'sealed' })).toMatchObject({ total_count: 4 })
    expect(attestations).toBe(1)
    expect((await client.tools()).map(({ name }) => name)).toContain('task_create')
  })

  it('begins a new session when the old one is over, and tries once', async () => {
    const seen: number[] = []
    const forgetful: typeof fetch = async (input, init) => {
      const isFirst = seen.length === 0 && String(input).endsWith('/invoke')
      const body = isFirst ? String(init?.body).replace('"security_token":"', '"security_token":"x') : init?.body
      const response = await fetch(input, { ...init, ...(body === undefined ? {} : { body }) })
      if (String(input).endsWith('/invoke')) seen.push(response.status)
      return response
    }
    expect(await operator({ fetch: forgetful }).call('task_list')).toHaveProperty('tasks')
    expect(seen).toEqual([401, 200])
  })

  it('begins a new session when the old one was revoked', async () => {
    const client = operator()
    const sessionsOf = async () =>
      ((await client.call('seal_session_list')) as { sessions: { session_id: string; status: string }[] }).sessions
    const { session_id } = (await sessionsOf()).find(({ status }) => status === 'active')!
    expect(await client.call('seal_session_revoke', { session_id })).toMatchObject({ status: 'revoked' })
    expect((await sessionsOf())[0]).toMatchObject({ status: 'active' })
  })

  it('says why the server refused', async () => {
    const refused = await operator()
      .call('task_get', {})
      .catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(SealError)
    expect(refused).toMatchObject({ status: 422, code: -32602, reason: 'INVALID_ARGUMENTS' })
    const untrusted = createSealClient({ url: keyed.url })
    await expect(untrusted.call('task_list')).rejects.toMatchObject({ status: 401 })
    const apiKey = await peer.createKey({ name: 'outside' })
    const known = createSealClient({ url: `${keyed.url}/`, apiKey })
    await expect(known.call('task_list')).rejects.toMatchObject({ status: 403, reason: 'TOOL_NOT_ALLOWED' })
  })

  it('can be imported by a program that has the package installed', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'castellan-installed-'))
    try {
      const root = fileURLToPath(new URL('../..', import.meta.url))
      const installed = join(folder, 'node_modules', 'castellan')
      await mkdir(installed, { recursive: true })
      for (const part of ['package.json', 'bin', 'src/seal-client', 'src/kernel']) {
        await cp(join(root, part), join(installed, part), { recursive: true })
      }
      const script = join(folder, 'caller.mjs')
      await writeFile(
        script,
        `import { createSealClient } from 'castellan/seal-client'
         const client = createSealClient({ url: '${served.url}', securityContext: 'aegis-system-operator' })
         console.log(JSON.stringify(await client.call('server_ping')))`,
      )
      const { stdout, stderr } = await runNode([script], 180_000)
      expect(stdout, stderr).toContain('{')
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })
})
