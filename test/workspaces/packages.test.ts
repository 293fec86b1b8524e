import { afterAll, beforeAll, expect, it } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { openWorkspaceApp, sh } from '../support/workspaces.ts'

/** Packages that are in the workspace already: nothing here needs a network, and the machine's programs stay read-only. */
let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp({ config: { 'workspaces.store_gb': 0 } })
  await app.ask('workspace_create', { name: 'w' })
})
afterAll(() => app[Symbol.asyncDispose]())

/** Prints what it printed, so that a failure says why. */
const run = async (command: string): Promise<string> => {
  const { exit_code, stdout, stderr } = await sh(app, 'w', command, { timeout_secs: 50 })
  return exit_code === 0 ? stdout : `exit ${exit_code}: ${stdout}${stderr}`
}
const write = (path: string, content: string) => app.ask('file_write', { workspace_id: 'w', path, content })

it('finds what the user installed before what the machine has', async () => {
  expect(await run('echo "$PATH"')).toMatch(/^\/root\/\.local\/bin:/)
  await run('mkdir -p ~/.local/bin && printf "#!/bin/sh\\necho mine\\n" > ~/.local/bin/ls && chmod +x ~/.local/bin/ls')
  expect(await run('ls; rm ~/.local/bin/ls')).toBe('mine\n')
})

const wheelScript = `
import zipfile
info = 'greeting-1.0.dist-info/'
with zipfile.ZipFile('/tmp/greeting-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('greeting.py', 'def main():\\n    print("hello from a wheel")\\n')
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: greeting\\nVersion: 1.0\\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(info + 'entry_points.txt', '[console_scripts]\\ngreet-from-wheel = greeting:main\\n')
    wheel.writestr(info + 'RECORD', '')
`
it('installs a wheel, with its command, and uninstalls it', async () => {
  await write('/tmp/make-wheel.py', wheelScript)
  const installed = await run('python3 /tmp/make-wheel.py && pip3 install --no-index /tmp/*.whl')
  expect(installed).toContain('Successfully installed greeting-1.0')
  expect(await run('greet-from-wheel')).toBe('hello from a wheel\n')
  expect(await run('python3 -c "import greeting; print(greeting.__file__)"')).toMatch(/^\/root\/\.local\//)
  expect(await run('pip3 uninstall --yes greeting && ! command -v greet-from-wheel')).toContain('Successfully')
})

/** A source package that builds itself: the build needs nothing that is not in it. */
const buildBackend = `
import pathlib, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    info = 'fromsource-1.0.dist-info/'
    with zipfile.ZipFile(pathlib.Path(folder) / 'fromsource-1.0-py3-none-any.whl', 'w') as wheel:
        wheel.writestr('fromsource.py', 'word = "built here"\\n')
        wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: fromsource\\nVersion: 1.0\\n')
        wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
        wheel.writestr(info + 'RECORD', '')
    return 'fromsource-1.0-py3-none-any.whl'
`
it('builds and installs a source package', async () => {
  await write('/tmp/fromsource-1.0/backend.py', buildBackend)
  await write(
    '/tmp/fromsource-1.0/pyproject.toml',
    '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "fromsource"\nversion = "1.0"\n',
  )
  const archive = 'cd /tmp && tar -czf fromsource-1.0.tar.gz fromsource-1.0 && rm -r fromsource-1.0'
  expect(await run(`${archive} && pip3 install --no-index /tmp/fromsource-1.0.tar.gz`)).toContain(
    'Successfully installed fromsource-1.0',
  )
  expect(await run('python3 -c "import fromsource; print(fromsource.word)"')).toBe('built here\n')
})

it('installs a folder as a global package, with its command', async () => {
  await write(
    '/workspace/greeter/package.json',
    '{"name":"greeter","version":"1.0.0","bin":{"greet-from-npm":"run.js"}}',
  )
  await write('/workspace/greeter/run.js', '#!/usr/bin/env node\nconsole.log("hello from npm")\n')
  expect(await run('cd /workspace && npm install -g ./greeter && greet-from-npm')).toMatch(/hello from npm\n$/)
  expect(await run('command -v greet-from-npm')).toBe('/root/.local/bin/greet-from-npm\n')
  expect(
    await run('cd /workspace && npm pack ./greeter && npm uninstall -g greeter && npm install -g greeter-1.0.0.tgz'),
  ).toContain('added 1 package')
  expect(await run('greet-from-npm')).toBe('hello from npm\n')
})
