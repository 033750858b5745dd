// SPDX-License-Identifier: MIT
//
// Checks manifests (an array as JSON on standard input) by the schemas of Kubernetes and of the Prometheus operator,
// and prints a line for each fault. Run where the packages of package.json are.
//
// The API's schemas permit keys that they do not know. So each value is replaced by one that no schema takes, one after
// the other: where nobody complains, the key is unknown.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const NEVER = [[]];

async function modelOf({ apiVersion, kind }) {
	const operator = "@kubernetes-models/prometheus-operator";
	const where = apiVersion.startsWith("monitoring.") ? operator : "kubernetes-models";
	return (await import(pathToFileURL(`node_modules/${where}/${apiVersion}/${kind}.js`)))[kind];
}

function complaint(Model, manifest) {
	try {
		new Model(manifest).validate();
		return null;
	} catch (error) {
		return error.message;
	}
}

// [object, key, path] of each value that is no object or array itself.
function* values(parent, path = "") {
	for (const [key, value] of Object.entries(parent)) {
		if (value !== null && typeof value === "object" && Object.keys(value).length)
			yield* values(value, `${path}/${key}`);
		else
			yield [parent, key, `${path}/${key}`];
	}
}

for (const manifest of JSON.parse(readFileSync(0, "utf8"))) {
	const name = `${manifest.kind} ${manifest.metadata.name}`;
	const Model = await modelOf(manifest);
	const wrong = complaint(Model, manifest);

	if (wrong !== null) {
		console.log(`${name}: ${wrong}`);
		continue;
	}
	for (const [parent, key, path] of values(manifest)) {
		const value = parent[key];

		parent[key] = NEVER;
		if (complaint(Model, manifest) === null)
			console.log(`${name}: ${path} is unknown`);
		parent[key] = value;
	}
}
