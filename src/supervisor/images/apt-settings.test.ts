import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readAptSettings } from './apt-settings.ts'

let aptDirectory: string
beforeAll(async () => {
  aptDirectory = await mkdtemp(join(tmpdir(), 'castellan-apt-'))
  await mkdir(join(aptDirectory, 'sources.list.d'))
  await writeFile(
    join(aptDirectory, 'sources.list'),
    [
      '# deb http://commented.example/debian bookworm main',
      'deb-src http://mirror.example/debian bookworm main',
      'deb [arch=amd64 signed-by=/etc/keyrings/other.gpg] https://other.example/linux bookworm main',
      'deb http://someone:word@private.example/debian bookworm main',
      'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian bookworm main contrib # ours',
      '',
    ].join('\n'),
  )
  await writeFile(
    join(aptDirectory, 'sources.list.d', 'more.sources'),
    [
      'Types: deb deb-src',
      '# a comment',
      'URIs: http://mirror.example/debian',
      ' http://second.example/debian',
      'Suites: bookworm-updates',
      'Components: main',
      '',
      'Types: deb',
      'Enabled: no',
      'URIs: http://disabled.example/debian',
      'Suites: bookworm',
      'Components: main',
      '',
      'Types: deb',
      'URIs: http://mirror.example/debian-security',
      'Suites: bookworm-security trixie-security',
      'Components: main',
      'Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg',
    ].join('\n'),
  )
  await writeFile(join(aptDirectory, 'sources.list.d', 'off.list.disabled'), 'deb http://off.example/ bookworm main\n')
})
afterAll(() => rm(aptDirectory, { recursive: true }))

it('takes the archive of the distribution as this machine reaches it, and nothing else', async () => {
  const settings = await readAptSettings({ suite: 'bookworm', mirror: undefined, aptDirectory })
  expect(settings.mirror).toBe('http://mirror.example/debian')
  expect(settings.sources.trim().split('\n')).toEqual([
    'deb http://mirror.example/debian bookworm main contrib',
    'deb http://mirror.example/debian bookworm-updates main',
    'deb http://second.example/debian bookworm-updates main',
    'deb http://mirror.example/debian-security bookworm-security main',
  ])
})

it('takes a mirror that is given, alone, and its own default for a release that this machine does not know', async () => {
  const input = await readAptSettings({ suite: 'bookworm', mirror: 'https://near.example/debian/', aptDirectory })
  expect(input).toMatchObject({
    mirror: 'https://near.example/debian',
    sources: 'deb https://near.example/debian bookworm main\n',
  })
  const unknown = await readAptSettings({ suite: 'sid', mirror: undefined, aptDirectory })
  expect(unknown.sources).toBe('deb http://deb.debian.org/debian sid main\n')
})

it.each([
  ['mirror', 'bookworm', 'http://me:secret@mirror.example/debian'],
  ['mirror', 'bookworm', 'file:///srv/mirror'],
  ['mirror', 'bookworm', 'http://a b/'],
  ['mirror', 'bookworm', 'no address'],
  ['suite', '../x', undefined],
  ['suite', '--help', undefined],
])('refuses %s when it is %s %s', async (field, suite, mirror) => {
  const asked = readAptSettings({ suite, mirror, aptDirectory })
  await expect(asked).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field } })
})
