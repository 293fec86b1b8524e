import { execFile } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Clock, systemClock } from '../../kernel/clock.ts'
import { openCertificateAuthority } from './certificate-authority.ts'

const run = promisify(execFile)
const DAY_MS = 86_400_000

let parent: string
let directory: string
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'castellan-authority-'))
  directory = join(parent, 'authority')
})
afterEach(() => rm(parent, { recursive: true, force: true }))

const open = (clock: Clock = systemClock, leavesMax = 2) => openCertificateAuthority({ directory, clock, leavesMax })
const modeOf = async (path: string): Promise<string> => ((await stat(path)).mode & 0o777).toString(8)
const later = (days: number): Clock => ({ ...systemClock, nowMs: () => systemClock.nowMs() + days * DAY_MS })

describe('openCertificateAuthority', () => {
  it('makes an authority that only its owner can use', async () => {
    const { certificatePem } = await open()
    expect(await modeOf(directory)).toBe('700')
    expect(await modeOf(join(directory, 'authority.key'))).toBe('600')
    expect((await readdir(directory)).sort()).toEqual(['authority.key', 'authority.pem'])
    const certificate = new X509Certificate(certificatePem)
    expect(certificate.ca).toBe(true)
    expect(certificate.publicKey.asymmetricKeyDetails).toMatchObject({ namedCurve: 'prime256v1' })
    const { stdout } = await run('openssl', [
      ...['verify', '-x509_strict', '-CAfile', join(directory, 'authority.pem'), join(directory, 'authority.pem')],
    ])
    expect(stdout).toContain('OK')
  })

  it('finds it again, and makes its key private again', async () => {
    const first = await open()
    await run('chmod', ['644', join(directory, 'authority.key')])
    expect((await open()).certificatePem).toBe(first.certificatePem)
    expect(await modeOf(join(directory, 'authority.key'))).toBe('600')
  })

  it('makes another when the files are damaged, do not belong together, or are nearly too old', async () => {
    const first = await open()
    await writeFile(join(directory, 'authority.key'), 'nothing')
    const second = await open()
    expect(second.certificatePem).not.toBe(first.certificatePem)
    await writeFile(join(directory, 'authority.pem'), first.certificatePem)
    const third = await open()
    expect([first.certificatePem, second.certificatePem]).not.toContain(third.certificatePem)
    expect((await open(later(3500))).certificatePem).toBe(third.certificatePem)
    expect((await open(later(3600))).certificatePem).not.toBe(third.certificatePem)
  })

  it('makes one leaf for a host, however many ask, and forgets the one that was not asked for longest', async () => {
    const authority = await open()
    const [first, again] = await Promise.all([authority.contextFor('a.test'), authority.contextFor('a.test')])
    expect(again).toBe(first)
    await authority.contextFor('b.test')
    expect(await authority.contextFor('a.test')).toBe(first)
    await authority.contextFor('c.test')
    expect(await authority.contextFor('a.test')).toBe(first)
    await authority.contextFor('d.test')
    await authority.contextFor('e.test')
    expect(await authority.contextFor('a.test')).not.toBe(first)
  })

  it('makes a new leaf long before the old one ends', async () => {
    let days = 0
    const authority = await open({ ...systemClock, nowMs: () => systemClock.nowMs() + days * DAY_MS })
    const first = await authority.contextFor('a.test')
    days = 6
    expect(await authority.contextFor('a.test')).toBe(first)
    days = 8
    expect(await authority.contextFor('a.test')).not.toBe(first)
  })

  it('tries again after a failure', async () => {
    const authority = await open()
    const key = await readFile(join(directory, 'authority.key'))
    await rm(join(directory, 'authority.key'))
    await expect(authority.contextFor('a.test')).rejects.toThrow(/openssl/)
    await writeFile(join(directory, 'authority.key'), key)
    await expect(authority.contextFor('a.test')).resolves.toBeDefined()
  })
})
