import { describe, expect, it } from 'vitest'
import { registryHosts } from './rules.ts'

describe('the hosts that a package runner installs from', () => {
  it.each([
    ['npx', ['registry.npmjs.org']],
    ['/usr/local/bin/uvx', ['pypi.org', 'files.pythonhosted.org']],
    ['node', []],
    ['constructor', []],
  ])('of %s', (command, hosts) => {
    expect(registryHosts(command)).toEqual(hosts)
  })
})
