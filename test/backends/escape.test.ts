import { openNamespacesBackend, openUserBackend } from '../support/namespaces-backend.ts'
import { describeEscapes } from './escape-suite.ts'

describeEscapes('escapes, with the privileges that the tests have', () => openNamespacesBackend())
describeEscapes('escapes, with them and without packages', () => openNamespacesBackend({ withoutPackages: true }))
describeEscapes('escapes, as an ordinary user', () => openUserBackend({ subordinateIds: false }))
describeEscapes('escapes, as an ordinary user without packages', () =>
  openUserBackend({ subordinateIds: true, withoutPackages: true, withoutTun: true }),
)
