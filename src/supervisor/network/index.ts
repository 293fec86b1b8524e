export { egressAddress, proxyPort } from './addresses.ts'
export type { NetworkHub } from './network-hub.ts'
export { resolverText } from './policy.ts'
