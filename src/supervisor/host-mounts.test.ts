import { expect, it } from 'vitest'
import { createHostMounts } from './host-mounts.ts'

const hostMount = createHostMounts(['ro /srv/read', 'rw /srv/own'])
const mount = { beneath: '.', target: '/m' }
const refusal = (root: string, readOnly: boolean): string => {
  try {
    hostMount({ root, readOnly, ...mount })
    return ''
  } catch (error) {
    return (error as Error).message
  }
}

it('says of a folder whether it was named when the supervisor started', () => {
  for (const [root, readOnly] of [
    ['/srv/read', true],
    ['/srv/own', true],
    ['/srv/own', false],
  ] as const) {
    expect(refusal(root, readOnly)).toMatch(
      /workspaces\/supervisor\.log in the data directory has the reason.*castellan doctor/,
    )
    expect(refusal(root, readOnly).includes('chmod o-x')).toBe(!readOnly)
  }
  for (const [root, readOnly] of [
    ['/srv/new', true],
    ['/srv/read', false],
  ] as const) {
    expect(refusal(root, readOnly)).toMatch(
      /before the entry was added to workspaces\.mounts.*stop every workspace.*castellan doctor/,
    )
  }
})
