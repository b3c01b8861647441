# What the module uses of nixpkgs' library, so that it can be evaluated where there is no nixpkgs. Options that do not
# exist, values of other types and missing values are errors, as there and in the same words.
let
  inherit (builtins)
    all
    attrNames
    concatLists
    concatMap
    elem
    filter
    head
    isAttrs
    isString
    ;
  kind = definition: definition._type or "";

  # A definition without conditions: none, one or several.
  plain =
    definition:
    if kind definition == "if" then
      (if definition.condition then plain definition.content else [ ])
    else
      [ definition ];
  # Which options a definition has must not depend on its condition, or an option could not decide on itself.
  pushed =
    definition:
    if kind definition == "if" then
      map (builtins.mapAttrs (_: lib.mkIf definition.condition)) (pushed definition.content)
    else
      [ definition ];

  single =
    path: values:
    if all (value: value == head values) values then
      head values
    else
      throw "${path} is defined twice";
  isOther = path: what: throw "A definition for option `${path}' is not of type `${what}'";
  checked = description: isOne: {
    inherit description;
    merge =
      path: values:
      let
        value = single path values;
      in
      if isOne value then value else isOther path description;
  };

  within = path: name: if path == "" then name else "${path}.${name}";
  # The values of options from definitions.
  build =
    path: options: definitions:
    let
      known = concatMap pushed definitions;
      unknown = filter (name: !(options ? ${name})) (concatLists (map attrNames known));
    in
    if unknown != [ ] then
      throw "The option `${within path (head unknown)}' does not exist"
    else
      builtins.mapAttrs (
        name: option:
        let
          here = within path name;
          given = concatMap (definition: if definition ? ${name} then [ definition.${name} ] else [ ]) known;
          values = concatMap plain given;
        in
        if kind option != "option" then
          build here option given
        else if values != [ ] then
          option.type.merge here values
        else
          option.default or (throw "${here} is not set")
      ) options;

  update =
    one: other:
    one
    // builtins.mapAttrs (
      name: value:
      if one ? ${name} && isAttrs value && kind value != "option" then update one.${name} value else value
    ) other;

  lib = {
    inherit attrNames elem;
    inherit (builtins)
      all
      any
      length
      mapAttrs
      ;
    unique = builtins.foldl' (known: one: if elem one known then known else known ++ [ one ]) [ ];
    genAttrs =
      names: make:
      builtins.listToAttrs (
        map (name: {
          inherit name;
          value = make name;
        }) names
      );
    optional = condition: value: if condition then [ value ] else [ ];
    optionalAttrs = condition: set: if condition then set else { };
    mapAttrsToList = make: set: map (name: make name set.${name}) (attrNames set);
    mkOption = option: option // { _type = "option"; };
    versionAtLeast = version: least: builtins.compareVersions version least >= 0;
    mkIf = condition: content: {
      _type = "if";
      inherit condition content;
    };
    types = rec {
      str = checked "string" isString;
      bool = checked "boolean" builtins.isBool;
      int = checked "signed integer" builtins.isInt;
      package = checked "package" (
        value:
        value ? outPath
        || (isString value && builtins.match "${builtins.storeDir}/[0-9a-z]{32}-.*" value != null)
      );
      anything.merge =
        path: values:
        if all isAttrs values then (attrsOf anything).merge path values else single path values;
      nullOr = type: {
        merge = path: values: if all (value: value == null) values then null else type.merge path values;
      };
      listOf = type: rec {
        description = "list of ${type.description or "anything"}";
        merge =
          path: lists:
          concatLists (
            map (
              list:
              if builtins.isList list then
                map (value: type.merge path [ value ]) list
              else
                isOther path description
            ) lists
          );
      };
      attrsOf = type: {
        merge =
          path: sets:
          builtins.mapAttrs (name: values: type.merge "${path}.${name}" (concatMap plain values)) (
            builtins.zipAttrsWith (_: values: values) sets
          );
      };
      submodule = module: { merge = path: build path module.options; };
    };
    evalModules =
      { modules, specialArgs }:
      let
        loaded = map (
          module:
          let
            content = if builtins.isPath module then import module else module;
          in
          if builtins.isFunction content then content ({ inherit config lib; } // specialArgs) else content
        ) modules;
        options = builtins.foldl' update { } (map (module: module.options or { }) loaded);
        config = build "" options (
          map (module: module.config or (removeAttrs module [ "options" ])) loaded
        );
      in
      {
        inherit config;
      };
  };
in
lib
