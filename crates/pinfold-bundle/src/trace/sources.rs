//! Where what can lead to a process comes from, in one look at every node.

use oxc_ast::AstKind;
use oxc_ast::ast::{
    Argument, CallExpression, Expression, ImportDeclaration, ImportDeclarationSpecifier,
    ImportOrExportKind, PropertyKey, StringLiteral, TSModuleReference,
};
use oxc_semantic::NodeId;
use oxc_span::{GetSpan as _, Span};

use super::{Kind, Trace};
use crate::api::Api;
use crate::esbuild;
use crate::finding::Spot;
use crate::text::Text;

impl Trace<'_, '_> {
    pub(super) fn find_sources(&mut self) {
        let helpers = self.helpers();
        self.find_globals(&helpers);
        let semantic = self.semantic;
        for node in semantic.nodes().iter() {
            self.look(node.id(), node.kind());
        }
    }

    /// Names that the file does not declare.
    fn find_globals(&mut self, helpers: &[Span]) {
        let scoping = self.semantic.scoping();
        for (name, references) in scoping.root_unresolved_references() {
            let references = references.iter().map(|id| scoping.get_reference(*id));
            let nodes: Vec<NodeId> = references.map(|reference| reference.node_id()).collect();
            let kind = Kind::of_global(name);
            for node in nodes {
                let span = self.semantic.nodes().kind(node).span();
                if *name == "arguments" && self.is_outside_functions(node) {
                    let what = "arguments of a CommonJS module, which holds require";
                    self.findings.spots.push(Spot::unclear(span.start, what));
                }
                let in_helper = helpers.iter().any(|helper| helper.contains_inclusive(span));
                if let Some(kind) = kind.filter(|_| !in_helper) {
                    self.follow(node, kind);
                }
            }
        }
    }

    fn is_outside_functions(&self, node: NodeId) -> bool {
        !self.semantic.nodes().ancestor_kinds(node).any(|kind| matches!(kind, AstKind::Function(_)))
    }

    /// Returns the helpers of esbuild's, whose names are a `require`.
    fn helpers(&mut self) -> Vec<Span> {
        let (semantic, mut spans) = (self.semantic, Vec::new());
        for node in semantic.nodes().iter() {
            if let AstKind::VariableDeclarator(declarator) = node.kind()
                && let Some(init) = &declarator.init
                && let Some(name) = declarator.id.get_binding_identifier()
                && esbuild::is_helper(init.span().source_text(semantic.source_text()))
            {
                spans.push(init.span());
                self.bind(name.symbol_id(), Kind::Loads);
            }
        }
        spans
    }

    fn look(&mut self, node: NodeId, kind: AstKind<'_>) {
        match kind {
            AstKind::ImportDeclaration(import) => self.look_at_import(import),
            AstKind::ExportNamedDeclaration(export)
                if export.export_kind == ImportOrExportKind::Value =>
            {
                if let Some(source) = &export.source {
                    self.load_literal(source, "export … from");
                    self.hand_on(source);
                }
            }
            AstKind::ExportAllDeclaration(export)
                if export.export_kind == ImportOrExportKind::Value =>
            {
                self.load_literal(&export.source, "export … from");
                self.hand_on(&export.source);
            }
            AstKind::ImportExpression(import) => {
                self.load(&import.source, "import()");
                self.follow_module(node, &import.source);
            }
            AstKind::TSImportEqualsDeclaration(import)
                if import.import_kind == ImportOrExportKind::Value =>
            {
                if let TSModuleReference::ExternalModuleReference(module) = &import.module_reference
                {
                    self.load_literal(&module.expression, "import … = require()");
                    if let Some(kind) = Kind::of_module(&module.expression.value) {
                        self.bind(import.id.symbol_id(), kind);
                    }
                }
            }
            AstKind::StaticMemberExpression(member) => {
                let name = Text::Whole(member.property.name.to_string());
                self.look_at_member(node, &member.object, &name);
            }
            AstKind::ComputedMemberExpression(member) => {
                for name in self.values(&member.expression) {
                    self.look_at_member(node, &member.object, &name);
                }
            }
            AstKind::ObjectPattern(pattern) => self.bind_properties(pattern, None),
            AstKind::ObjectAssignmentTarget(target) => self.assign_properties(target, None),
            AstKind::CallExpression(call) => self.look_at_call(call),
            AstKind::WithStatement(with) => {
                self.findings.spots.push(Spot::unclear(
                    with.span.start,
                    "with, in which no name can be distinguished from another",
                ));
            }
            _ => {}
        }
    }

    fn look_at_import(&mut self, import: &ImportDeclaration<'_>) {
        if import.import_kind == ImportOrExportKind::Type {
            return;
        }
        self.load_literal(&import.source, "import");
        let Some(module) = Kind::of_module(&import.source.value) else { return };
        for specifier in import.specifiers.iter().flatten() {
            let kind = match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(one) => {
                    module.member(&one.imported.name())
                }
                ImportDeclarationSpecifier::ImportDefaultSpecifier(_)
                | ImportDeclarationSpecifier::ImportNamespaceSpecifier(_) => Some(module),
            };
            if let Some(kind) = kind {
                self.bind(specifier.local().symbol_id(), kind);
            }
        }
    }

    /// Handles an export of a module that leads on: it is used where this file does not see it.
    fn hand_on(&mut self, source: &StringLiteral<'_>) {
        if Kind::of_module(&source.value).is_some() {
            let what = "node:module, node:process or node:vm, exported, which lead to processes";
            self.findings.spots.push(Spot::unclear(source.span.start, what));
        }
    }

    fn load_literal(&mut self, source: &StringLiteral<'_>, how: &str) {
        self.load_named(source.span.start, &source.value, how);
    }

    /// Follows a module that was loaded, which may be one that leads on.
    pub(super) fn follow_module(&mut self, node: NodeId, name: &Expression<'_>) {
        for value in self.values(name) {
            if let Text::Whole(name) = value
                && let Some(kind) = Kind::of_module(&name)
            {
                self.follow(node, kind);
            }
        }
    }

    /// Checks a call of anything: a word that means only one thing is refused as its argument.
    fn look_at_call(&mut self, call: &CallExpression<'_>) {
        for argument in call.arguments.iter().filter_map(Argument::as_expression) {
            for value in self.values(argument) {
                if let Text::Whole(word) = value
                    && let Some(api) = Api::of_word(&word)
                {
                    let how = "its name, handed to a function";
                    self.words.push(Spot::api(argument.span().start, api, how));
                }
            }
        }
    }

    fn look_at_member(&mut self, node: NodeId, object: &Expression<'_>, name: &Text) {
        let Text::Whole(name) = name else { return };
        if let Some(kind) = Kind::of_any_member(name) {
            self.follow(node, kind);
        }
        if name == "constructor" && self.is_function(object) {
            self.follow(node, Kind::MakesFunction);
        }
    }

    /// Returns whether its constructor makes functions of code: a function, the prototype of one, or
    /// whatever has constructed something.
    fn is_function(&self, object: &Expression<'_>) -> bool {
        match object.get_inner_expression() {
            Expression::FunctionExpression(_)
            | Expression::ArrowFunctionExpression(_)
            | Expression::ClassExpression(_) => true,
            // Object.getPrototypeOf(function () {})
            Expression::CallExpression(call) => {
                let first = call.arguments.first().and_then(Argument::as_expression);
                first.is_some_and(|first| {
                    let first = first.get_inner_expression();
                    first.is_function()
                })
            }
            Expression::StaticMemberExpression(member) => match member.property.name.as_str() {
                "constructor" => true,
                "prototype" => member.object.is_specific_id("Function"),
                _ => false,
            },
            Expression::ComputedMemberExpression(member) => {
                let constructor = Text::Whole("constructor".to_owned());
                self.values(&member.expression).contains(&constructor)
            }
            _ => false,
        }
    }

    pub(super) fn key(&self, key: &PropertyKey<'_>) -> Vec<Text> {
        match key {
            PropertyKey::StaticIdentifier(name) => vec![Text::Whole(name.name.to_string())],
            PropertyKey::PrivateIdentifier(_) => Vec::new(),
            key => key.as_expression().map_or_else(Vec::new, |key| self.values(key)),
        }
    }
}
