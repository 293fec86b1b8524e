import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  dial,
  dialOpen,
  hostNetwork,
  type NetworkBench,
  openNetworkBench,
  privileges,
  say,
  type Workspace,
} from '../../../test/support/network-bench.ts'
import { closedNetwork, type NetworkSpec } from '../../domains/workspaces/backend.ts'
import type { NetworkCapabilities } from './network-hub.ts'

describe.each(privileges)('the network hub as %s', (privilege) => {
  let bench: NetworkBench
  let number = 1
  const hostBefore = hostNetwork()
  const start = (spec?: Partial<NetworkSpec>): Promise<Workspace> => bench.start(`10.99.0.${++number}`, spec)
  const set = ({ id }: Workspace, spec: Partial<NetworkSpec>): Promise<boolean> =>
    bench.hub.ask('update', id, { ...closedNetwork, ...spec })

  async function endsOf({ ip, inside }: Workspace): Promise<Record<'link' | 'hubMac' | 'insideMac', string>> {
    const macIn = (text: string): string => /link\/ether (\S+)/.exec(text)![1]!
    const link = / dev (\S+)/.exec(await bench.hub.ask('run', 'ip', ['route', 'get', ip]))![1]!
    return {
      link,
      hubMac: macIn(await bench.hub.ask('run', 'ip', ['link', 'show', 'dev', link])),
      insideMac: macIn(await inside.ask('run', 'ip', ['link', 'show', 'dev', 'eth0'])),
    }
  }

  beforeAll(async () => {
    bench = await openNetworkBench(privilege, { hostNetworkWaitMs: 100, uplinkStartMs: 100 })
  })
  afterAll(async () => {
    await bench.close()
    expect(hostNetwork()).toBe(hostBefore)
  })

  it('sees a rule enforced, and no way out before there is one', async () => {
    const capabilities = await bench.hub.ask<NetworkCapabilities>('probe')
    expect(capabilities.network_policy).toMatchObject({ enforced: true })
    expect(capabilities.internet).toMatchObject({
      enforced: false,
      reason: expect.stringContaining('slirp4netns is not'),
    })
    for (const name of ['port_forward', 'allowed_domains'] as const) {
      expect(capabilities[name]).toMatchObject({ enforced: false, reason: expect.stringContaining('host-network.log') })
    }
    await expect(bench.hub.ask('reserveHostPort', null)).rejects.toMatchObject({ code: 'ERR_CAPABILITY_MISSING' })
  })

  it('without its programs says what is missing for what, and promises no internet', async () => {
    const bare = await openNetworkBench(privilege, {
      ...{ hostNetworkWaitMs: 100, uplinkStartMs: 100 },
      searchPath: '/nonexistent',
    })
    try {
      const { network_policy, internet } = await bare.hub.ask<NetworkCapabilities>('probe')
      for (const capability of [network_policy, internet]) {
        const reason = expect.stringMatching(
          /^'ip' is missing, which networks between workspaces and allow_internet need/,
        )
        expect(capability).toEqual({ enforced: false, reason })
      }
    } finally {
      await bare.close()
    }
  })

  it('gives a workspace that may do nothing no link at all', async () => {
    const one = await start()
    expect(Object.keys(await one.inside.ask<object>('interfaces')).filter((name) => name !== 'lo')).toEqual([])
    expect(await dial(one, '10.99.0.1', 3128)).toEqual({ refused: 'ENETUNREACH' })
  })

  it('lets workspaces talk when both allow it, and cuts what was open when one no longer does', async () => {
    const [one, other] = [await start({ allowInterVm: true }), await start()]
    await other.inside.ask('listen', 7000, 'other')
    expect(await dial(one, other.ip, 7000)).toHaveProperty('refused')
    await set(other, { allowInterVm: true })
    const socket = await dialOpen(one, other.ip, 7000)
    expect(await say(one, socket, 'hello')).toBe('other:hello')
    await set(one, { allowInternet: true })
    expect(await say(one, socket, 'still there?')).toBe('ECONNRESET')
    expect(await dial(one, other.ip, 7000)).toEqual({ refused: 'ECONNREFUSED' })
  })

  it('cuts a connection from the side that did not open it as well', async () => {
    const [one, other] = [await start({ allowInterVm: true }), await start({ allowInterVm: true })]
    await other.inside.ask('listen', 7000, 'other')
    const socket = await dialOpen(one, other.ip, 7000)
    await set(other, { allowInternet: true })
    expect(await say(one, socket, 'hello')).toBe('ECONNRESET')
  })

  it('opens allowed ports, and no others, to workspaces that may talk', async () => {
    const [one, other] = [await start({ allowInterVm: true }), await start({ allowedPorts: [7001, 7003] })]
    const closed = await start({ allowInternet: true })
    for (const port of [7001, 7002]) await other.inside.ask('listen', port, 'other')
    await one.inside.ask('listen', 7001, 'one')
    const socket = await dialOpen(one, other.ip, 7001)
    expect(await say(one, socket, 'hello')).toBe('other:hello')
    expect(await dial(one, other.ip, 7002)).toEqual({ refused: 'ECONNREFUSED' })
    expect(await dial(other, one.ip, 7001)).toEqual({ refused: 'ECONNREFUSED' })
    expect(await other.inside.ask('connect', one.ip, 7001, 7003)).toEqual({ refused: 'ECONNREFUSED' })
    expect(await dial(closed, other.ip, 7001)).toEqual({ refused: 'ECONNREFUSED' })
    await set(other, { allowedPorts: [7002] })
    expect(await say(one, socket, 'hello')).toBe('ECONNRESET')
    await dialOpen(one, other.ip, 7002)
  })

  it('joins peers that name each other, and only those', async () => {
    const [one, other, third] = [await start(), await start(), await start()]
    for (const each of [one, other, third]) await each.inside.ask('listen', 7000, 'peer')
    await set(one, { peers: [other.ip, third.ip] })
    await set(third, { allowInternet: true })
    await set(other, { peers: [one.ip] })
    expect(await say(one, await dialOpen(one, other.ip, 7000), 'a')).toBe('peer:a')
    const back = await dialOpen(other, one.ip, 7000)
    expect(await say(other, back, 'b')).toBe('peer:b')
    expect(await dial(one, third.ip, 7000)).toEqual({ refused: 'ECONNREFUSED' })
    expect(await dial(third, one.ip, 7000)).toEqual({ refused: 'ECONNREFUSED' })
    await set(one, { peers: [third.ip] })
    expect(await say(other, back, 'c')).toBe('ECONNRESET')
  })

  it('lets nobody send with the address of another', async () => {
    const [one, other] = [await start({ allowInterVm: true }), await start({ allowInterVm: true })]
    const third = await start({ allowInterVm: true })
    await other.inside.ask('datagramListen', 7000)
    await one.inside.ask('run', 'ip', ['address', 'add', `${third.ip}/32`, 'dev', 'eth0'])
    expect(await one.inside.ask('datagramSend', other.ip, 7000, 'as another', third.ip)).toBe('sent')
    expect(await one.inside.ask('datagramSend', other.ip, 7000, 'as itself', one.ip)).toBe('sent')
    expect(await other.inside.ask('datagramsUntil', 'as itself')).toEqual(['as itself'])
  })

  it('answers refused datagrams at once', async () => {
    const [one, other] = [await start({ allowInterVm: true }), await start({ allowInternet: true })]
    expect(await one.inside.ask('datagramAsk', other.ip, 7000, 'hello')).toBe('EHOSTUNREACH')
  })

  it('opens nothing of the hub to anybody', async () => {
    await bench.hub.ask('listen', '10.99.0.1', 3128)
    await bench.hub.ask('listen', '0.0.0.0', 3129)
    const one = await start({ allowedDomains: ['example.org'], allowInterVm: true })
    const other = await start({ allowInternet: true, allowInterVm: true })
    for (const from of [one, other]) {
      for (const port of [3128, 3129]) expect(await dial(from, '10.99.0.1', port)).toHaveProperty('refused')
    }
    expect(await dial(one, '10.99.0.1', 53)).toHaveProperty('refused')
    expect(await dial(one, '203.0.113.99', 80)).toHaveProperty('refused')
  })

  it('needs no link for named hosts and forwards', async () => {
    const one = await start({ allowedDomains: ['example.org'], allowInternet: true })
    expect(Object.keys(await one.inside.ask<object>('interfaces')).filter((name) => name !== 'lo')).toEqual([])
    expect(await dial(one, '10.99.0.1', 3128)).toEqual({ refused: 'ENETUNREACH' })
  })

  it('has no IPv6, though everybody gives themselves addresses and routes', async () => {
    const [one, other] = [await start({ allowInterVm: true }), await start({ allowInterVm: true })]
    const ends = [
      { ...one, address: 'fd00::1', end: await endsOf(one) },
      { ...other, address: 'fd00::2', end: await endsOf(other) },
    ]
    for (const { inside, address } of ends) {
      const interfaces = await inside.ask<Record<string, { family: string }[]>>('interfaces')
      expect(interfaces['eth0']!.map(({ family }) => family)).toEqual(['IPv4'])
      await inside.ask('run', 'ip', ['address', 'add', `${address}/128`, 'dev', 'eth0', 'nodad'])
    }
    expect(await bench.hub.ask('run', 'ip', ['-6', 'address', 'show'])).toBe('')
    await other.inside.ask('datagramListen', 7000)
    await one.inside.ask('run', 'ip', ['route', 'add', 'fd00::2', 'dev', 'eth0'])
    await one.inside.ask('run', 'ip', ['neighbour', 'add', 'fd00::2', 'lladdr', ends[0]!.end.hubMac, 'dev', 'eth0'])
    expect(await one.inside.ask('datagramSend', 'fd00::2', 7000, 'without addresses in the hub', 'fd00::1')).toBe(
      'sent',
    )
    // Two independent protections: with the kernel's switch off, the ruleset still holds.
    await bench.hub.ask('write', '/proc/sys/net/ipv6/conf/all/disable_ipv6', '0')
    await bench.hub.ask('write', '/proc/sys/net/ipv6/conf/all/forwarding', '1')
    for (const { address, end } of ends) {
      await bench.hub.ask('run', 'ip', ['route', 'add', address, 'dev', end.link])
      await bench.hub.ask('run', 'ip', ['neighbour', 'add', address, 'lladdr', end.insideMac, 'dev', end.link])
    }
    expect(await one.inside.ask('datagramSend', 'fd00::2', 7000, 'with routes in the hub', 'fd00::1')).toBe('sent')
    await bench.hub.ask('write', '/proc/sys/net/ipv6/conf/all/disable_ipv6', '1')
    expect(await one.inside.ask('datagramSend', other.ip, 7000, 'as usual', one.ip)).toBe('sent')
    expect(await other.inside.ask('datagramsUntil', 'as usual')).toEqual(['as usual'])
  })

  it('says who may reach whom as the policies do', async () => {
    const all = [
      await start({ allowInternet: true }),
      await start({ allowInternet: true }),
      await start({ allowInternet: true }),
    ]
    for (const { inside } of all) for (const port of [7000, 7001]) await inside.ask('listen', port, 'x')
    const spec = fc.record({
      allowInternet: fc.constant(true),
      allowInterVm: fc.boolean(),
      allowedPorts: fc.subarray([7000, 7001]),
      allowedDomains: fc.subarray(['example.org']),
      peers: fc.subarray(all.map(({ ip }) => ip)),
    })
    await fc.assert(
      fc.asyncProperty(fc.tuple(spec, spec, spec), async (specs) => {
        for (const [index, workspace] of all.entries()) await set(workspace, specs[index]!)
        for (const [from, source] of all.entries()) {
          for (const [to, target] of all.entries()) {
            if (from === to) continue
            for (const port of [7000, 7001]) {
              const answer = await dial(source, target.ip, port)
              const [one, other] = [specs[from]!, specs[to]!]
              const may =
                (one.allowInterVm && (other.allowInterVm || other.allowedPorts.includes(port))) ||
                (one.peers.includes(target.ip) && other.peers.includes(source.ip))
              expect(answer.refused === undefined, JSON.stringify({ from, to, port })).toBe(may)
            }
          }
        }
      }),
      { numRuns: 15 },
    )
  })

  it('lets nobody talk to a workspace of another tenant, whatever both allow', async () => {
    const one = await start({ allowInterVm: true, tenant: 'a' })
    const other = await start({ allowInterVm: true, allowedPorts: [7000], tenant: 'b' })
    await other.inside.ask('listen', 7000, 'secret')
    expect(await dial(one, other.ip, 7000)).toHaveProperty('refused')
    const friend = await start({ allowInterVm: true, tenant: 'b' })
    expect(await say(friend, await dialOpen(friend, other.ip, 7000), 'a')).toBe('secret:a')
  })

  it('takes a workspace that started anew under its old address, and forgets one that is gone', async () => {
    const [one, other] = [await start({ allowInterVm: true }), await start({ allowInterVm: true })]
    await other.inside.ask('listen', 7000, 'first')
    await dialOpen(one, other.ip, 7000)
    const { link } = await endsOf(other)
    await bench.hub.ask(
      'attach',
      { id: other.id, ip: other.ip, pid: other.inside.pid },
      { ...closedNetwork, allowInterVm: true },
    )
    expect((await endsOf(other)).link).toBe(link)
    await bench.hub.ask('detach', other.id)
    expect(await dial(one, other.ip, 7000)).toHaveProperty('refused')
    expect(await bench.hub.ask('update', other.id, closedNetwork)).toBe(false)
    await bench.hub.ask('detach', other.id)
    const again = await bench.start(other.ip, { allowInterVm: true })
    await again.inside.ask('listen', 7000, 'second')
    expect(await say(one, await dialOpen(one, other.ip, 7000), 'a')).toBe('second:a')
    await again.inside.end()
    const third = await bench.start(other.ip, { allowInterVm: true })
    await third.inside.ask('listen', 7000, 'third')
    expect(await say(one, await dialOpen(one, other.ip, 7000), 'a')).toBe('third:a')
  })

  it('keeps everything as it was when a change cannot be made', async () => {
    const [one, other] = [await start({ allowInterVm: true }), await start({ allowInterVm: true })]
    await other.inside.ask('listen', 7000, 'other')
    const socket = await dialOpen(one, other.ip, 7000)
    await expect(set(one, { forwards: [{ hostPort: 20_000, guestPort: 80 }] })).rejects.toMatchObject({
      code: 'ERR_CAPABILITY_MISSING',
    })
    for (const wrong of [
      { allowedPorts: [0] },
      { allowedPorts: [1.5] },
      { peers: ['10.99.0.1'] },
      { peers: ['1.1.1.1'] },
    ]) {
      await expect(set(one, wrong)).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
    }
    expect(await say(one, socket, 'hello')).toBe('other:hello')
  })
})
