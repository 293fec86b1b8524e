import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runCastellanHere } from '../support/castellan-here.ts'
import { MAIL_PASSWORD, startMailServer } from '../support/mail-server.ts'
import { castellanJson, PASSWORD, postForm } from '../support/people.ts'
import { newDataDir, type RealServer, startRealServer } from '../support/real-server.ts'
import { makeTlsPair } from '../support/tls-files.ts'

/** Invitations by mail: a real mail server with TLS and a password, the real program. */
let server: RealServer
let mails: Awaited<ReturnType<typeof startMailServer>>
let home: string

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'castellan-mail-'))
  const pair = makeTlsPair(home, 'mail')
  mails = await startMailServer(pair)
  server = await startRealServer({
    dataDir: newDataDir(),
    env: {
      CASTELLAN_SMTP_HOST: 'localhost',
      CASTELLAN_SMTP_PORT: String(mails.port),
      CASTELLAN_SMTP_USER: 'castellan',
      CASTELLAN_SMTP_PASSWORD: MAIL_PASSWORD,
      CASTELLAN_SMTP_FROM: 'castellan@example.com',
      NODE_EXTRA_CA_CERTS: pair.cert,
    },
  })
})
afterAll(async () => {
  await server.stop()
  await mails[Symbol.asyncDispose]()
  rmSync(home, { recursive: true, force: true })
  rmSync(server.dataDir, { recursive: true, force: true })
})

describe('an invitation', () => {
  it('is mailed with its link, which works', async () => {
    const invited = await castellanJson(server, ['invite', 'create', 'bob@example.com'])
    expect(invited).toMatchObject({ mail: 'sent', status: 'open' })
    const [mail, ...more] = mails.received.splice(0)
    expect(more).toEqual([])
    expect(mail).toMatchObject({ from: 'castellan@example.com', to: ['bob@example.com'] })
    expect(mail!.text).toContain(String(invited['link']))
    const url = new URL(new URL(String(invited['link'])).pathname, server.url)
    expect((await postForm(url, { password: PASSWORD, again: PASSWORD })).status).toBe(200)
  })

  it('that cannot be mailed says so, and its link is still given', async () => {
    const args = ['invite', 'create', 'refused@example.com', '--data-dir', server.dataDir]
    const run = await runCastellanHere(args, { home: server.dataDir })
    expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining('did not accept the mail') })
    const url = new URL(new URL(run.stdout.trim()).pathname, server.url)
    expect((await fetch(url)).status).toBe(200)
    expect(mails.received.splice(0)).toEqual([])
  })

  it('that is refused is not mailed', async () => {
    await expect(castellanJson(server, ['invite', 'create', 'x@example.com', '--teams', 'none'])).rejects.toThrow(
      /team/,
    )
    expect(mails.received.splice(0)).toEqual([])
  })
})

describe('the settings of mail', () => {
  it.each([
    ['a host without a sender', { CASTELLAN_SMTP_HOST: 'mail.example.com' }, 'smtp.from'],
    [
      'a password in the clear',
      {
        CASTELLAN_SMTP_HOST: 'mail.example.com',
        CASTELLAN_SMTP_FROM: 'a@example.com',
        CASTELLAN_SMTP_USER: 'a',
        CASTELLAN_SMTP_TLS: 'none',
      },
      'smtp.tls',
    ],
  ])('are refused with %s', async (_what, env, field) => {
    const run = await runCastellanHere(['config', 'validate'], { home, environment: env })
    expect(run.code).not.toBe(0)
    expect(run.stderr).toContain(field)
  })
})
