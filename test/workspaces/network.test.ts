import { createServer, type Server } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Answer, TestApp } from '../support/app.ts'
import { info, openWorkspaceApp } from '../support/workspaces.ts'

let app: TestApp
let taken: Server
let takenPort = 0
beforeAll(async () => {
  app = await openWorkspaceApp()
  for (const name of ['w', 'x']) await app.ask('workspace_create', { name })
  taken = createServer()
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
  takenPort = (taken.address() as { port: number }).port
})
afterAll(async () => {
  taken.close()
  await app[Symbol.asyncDispose]()
})
const policy = (args: object) =>
  app.ask<{ network_policy: Answer; port_forwards: Answer[] }>('network_policy', { workspace_id: 'w', ...args })
const forward = (args: object) =>
  app.ask<Answer & { port_forwards: Answer[] }>('port_forward', { workspace_id: 'w', ...args })
const refusal = (tool: string, args: object) => app.refusal(tool, { workspace_id: 'w', ...args })

describe('network_policy', () => {
  it('changes what is named and keeps the rest', async () => {
    expect((await policy({ allow_inter_vm: true, allowed_ports: [8080, 80, 80] })).network_policy).toEqual({
      allow_internet: false,
      allow_inter_vm: true,
      allowed_ports: [80, 8080],
      allowed_domains: [],
    })
    expect((await policy({ allow_inter_vm: false })).network_policy).toMatchObject({ allowed_ports: [80, 8080] })
    expect((await policy({ allowed_ports: [] })).network_policy).toMatchObject({
      allowed_ports: [],
      allow_inter_vm: false,
    })
    expect((await info(app, 'w')).network).toMatchObject({ allow_inter_vm: false, allowed_ports: [] })
  })

  it('says that named hosts are still reached without the rest of the internet', async () => {
    const closing = (more: object) => app.call('network_policy', { workspace_id: 'x', allow_internet: false, ...more })
    expect((await closing({ allowed_domains: ['example.org'] })).json).toContain('example.org')
    expect(JSON.stringify((await closing({})).content)).toContain('the hosts of allowed_domains can still be reached')
    expect((await closing({ allowed_domains: [] })).content).toBeUndefined()
  })

  it.each(['localhost', '10.0.0.1', 'a..b', '*', '*.*.org', 'exa mple.org', 'http://a.org', '-a.org'])(
    'refuses %j as a host name',
    async (domain) => {
      expect(await refusal('network_policy', { allowed_domains: [domain] })).toMatchObject({
        code: 'ERR_INVALID_INPUT',
        details: { field: 'allowed_domains' },
      })
    },
  )
})

describe('port_forward', () => {
  it('takes a free port, tells which, survives a change of policy and goes again', async () => {
    const added = await forward({ action: 'add', guest_port: 8000 })
    expect(added['host_port']).toBeGreaterThanOrEqual(1024)
    expect(await forward({ action: 'add', guest_port: 8000 })).toMatchObject({ host_port: added['host_port'] })
    await policy({ allowed_ports: [22] })
    const listed = [{ guest_port: 8000, host_port: added['host_port'] }]
    expect((await forward({ action: 'list', guest_port: 1 })).port_forwards).toEqual(listed)
    expect((await info(app, 'w')).network['port_forwards']).toEqual(listed)
    expect(await forward({ action: 'remove', guest_port: 8000 })).toMatchObject({ port_forwards: [] })
    expect(await refusal('port_forward', { action: 'remove', guest_port: 8000 })).toMatchObject({
      code: 'ERR_NOT_FOUND',
    })
  })

  it('refuses low ports, ports in use, and ports that a stopped workspace will want back', async () => {
    expect((await refusal('port_forward', { action: 'add', guest_port: 80, host_port: 80 })).message).toContain('1024')
    expect(await refusal('port_forward', { action: 'add', guest_port: 80, host_port: takenPort })).toMatchObject({
      code: 'ERR_INVALID_INPUT',
      details: { host_port: takenPort },
    })
    const { host_port } = await forward({ action: 'add', guest_port: 80 })
    await app.ask('workspace_stop', { workspace_id: 'w' })
    const request = { workspace_id: 'x', action: 'add', guest_port: 80, host_port }
    expect((await app.refusal('port_forward', request)).code).toBe('ERR_INVALID_INPUT')
    await app.ask('workspace_start', { workspace_id: 'w' })
    expect(
      await refusal('port_forward', { action: 'add', guest_port: 80, host_port: Number(host_port) + 1 }),
    ).toMatchObject({
      code: 'ERR_ALREADY_EXISTS',
    })
  })
})
